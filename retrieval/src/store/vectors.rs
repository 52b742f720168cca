//! The vectors of turns: arroy's items always, arroy's trees only where they beat a scan.

use std::num::NonZeroUsize;

use arroy::Writer;
use arroy::distances::Cosine;
use heed::RwTxn;
use rand::SeedableRng;
use rand::rngs::StdRng;
use roaring::RoaringBitmap;

use super::databases::VectorDatabase;
use super::{IngestProgress, IngestStage, Memory, Reading};
use crate::RetrievalError;

/// The trees are the same for the same history.
const SEED: u64 = 42;
/// Few trees build fast; what they miss, the keywords' candidates make up for.
const TREES: usize = 24;
/// Vectors looked at for each neighbour wanted; more is slower and more exact.
const SEARCH_FACTOR: usize = 8;

/// Which of arroy's indexes, and the length of its vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VectorSpace {
    pub(super) index: u16,
    pub(super) dimension: usize,
}

impl VectorSpace {
    /// The index that a reindexing fills.
    pub(super) fn other(self) -> Self {
        Self {
            index: self.index ^ 1,
            ..self
        }
    }

    pub(super) fn writer(self, database: VectorDatabase) -> Writer<Cosine> {
        Writer::new(database, self.index, self.dimension)
    }
}

pub(super) fn put(
    database: VectorDatabase,
    txn: &mut RwTxn<'_>,
    space: VectorSpace,
    (turn, vector): (u32, &[f32]),
) -> Result<(), RetrievalError> {
    Ok(space.writer(database).add_item(txn, turn, vector)?)
}

/// Removes a turn's vector; nothing happens when there is none.
pub(super) fn remove(
    database: VectorDatabase,
    txn: &mut RwTxn<'_>,
    space: VectorSpace,
    turn: u32,
) -> Result<(), RetrievalError> {
    space.writer(database).del_item(txn, turn)?;
    Ok(())
}

impl Memory {
    /// Builds the trees over what was added since the last build, when there are enough turns for trees to pay.
    pub(super) fn build_vectors(
        &self,
        progress: &mut dyn FnMut(IngestProgress),
    ) -> Result<(), RetrievalError> {
        let Some(space) = self.vector_space() else {
            return Ok(());
        };
        let mut writer = space.writer(self.inner.databases.vectors);
        writer.set_tmpdir(self.inner.environment.path());
        let wanted = self.read(|reading| {
            let turns = reading.databases.turns.len(reading.txn)?;
            Ok(turns > self.scan_turns() as u64 && writer.need_build(reading.txn)?)
        })?;
        if !wanted {
            return Ok(());
        }
        let mut report = |done| {
            progress(IngestProgress {
                stage: IngestStage::Index,
                done,
                total: 1,
            });
        };
        report(0);
        self.inner.environment.write(|txn| {
            let mut rng = StdRng::seed_from_u64(SEED);
            Ok(writer.builder(&mut rng).n_trees(TREES).build(txn)?)
        })?;
        report(1);
        Ok(())
    }
}

impl Reading<'_> {
    /// Calls `each` with every turn number and its vector, by turn number.
    pub(crate) fn each_vector(
        &self,
        dimension: usize,
        mut each: impl FnMut(u32, Vec<f32>),
    ) -> Result<(), RetrievalError> {
        let writer = Writer::<Cosine>::new(self.databases.vectors, self.vectors, dimension);
        for item in writer.iter(self.txn)? {
            let (turn, vector) = item?;
            each(turn, vector);
        }
        Ok(())
    }

    /// The numbers of the turns that have a vector.
    pub(super) fn vector_turns(&self) -> Result<Vec<u32>, RetrievalError> {
        let mut turns = Vec::new();
        self.each_vector(1, |turn, _| turns.push(turn))?;
        Ok(turns)
    }

    pub(crate) fn vector(&self, dimension: usize, turn: u32) -> Result<Option<Vec<f32>>, RetrievalError> {
        let writer = Writer::<Cosine>::new(self.databases.vectors, self.vectors, dimension);
        Ok(writer.item_vector(self.txn, turn)?)
    }

    /// About the nearest `count` turns with their cosines, best first, by the trees; `None` when they are not built
    /// for the present state.
    pub(crate) fn nearest(
        &self,
        vector: &[f32],
        count: usize,
        among: Option<&RoaringBitmap>,
    ) -> Result<Option<Vec<(u32, f32)>>, RetrievalError> {
        let reader = match arroy::Reader::<Cosine>::open(self.txn, self.vectors, self.databases.vectors) {
            Ok(reader) => reader,
            Err(arroy::Error::NeedBuild(_) | arroy::Error::MissingMetadata(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut query = reader.nns(count);
        if let Some(vectors) = NonZeroUsize::new(count * SEARCH_FACTOR) {
            query.search_k(vectors);
        }
        if let Some(among) = among {
            query.candidates(among);
        }
        let found = query.by_vector(self.txn, vector)?;
        // arroy's cosine distance is (1 - cosine) / 2.
        Ok(Some(
            found
                .into_iter()
                .map(|(turn, distance)| (turn, 1.0 - 2.0 * distance))
                .collect(),
        ))
    }
}
