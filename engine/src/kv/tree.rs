//! A radix tree over token ids, one node per KV block.
//!
//! A node stands for the tokens of one block after those of its ancestors. Full blocks may have children;
//! a partial block is a leaf. No key among siblings is a prefix of another: the longer one serves both.
//! Knows token ids and block numbers; does not know sequences, budgets or the memory behind the numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kernels::BLOCK_TOKENS;

pub(crate) type NodeId = usize;

/// The tokens of one block: 1 to 16 of them, ordered as a text is.
#[derive(Clone, Copy)]
pub(crate) struct BlockKey {
    tokens: [u32; BLOCK_TOKENS],
    len: u8,
}

impl BlockKey {
    /// The first tokens of a slice, 16 at most.
    pub(crate) fn first_of(tokens: &[u32]) -> Self {
        let len = tokens.len().min(BLOCK_TOKENS);
        let mut key = Self {
            tokens: [0; BLOCK_TOKENS],
            len: len as u8,
        };
        key.tokens[..len].copy_from_slice(&tokens[..len]);
        key
    }

    pub(crate) fn tokens(&self) -> &[u32] {
        &self.tokens[..usize::from(self.len)]
    }

    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.len) == BLOCK_TOKENS
    }

    fn common(&self, tokens: &[u32]) -> usize {
        self.tokens()
            .iter()
            .zip(tokens)
            .take_while(|(a, b)| a == b)
            .count()
    }
}

impl PartialEq for BlockKey {
    fn eq(&self, other: &Self) -> bool {
        self.tokens() == other.tokens()
    }
}

impl Eq for BlockKey {}

impl PartialOrd for BlockKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for BlockKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.tokens().cmp(other.tokens())
    }
}

impl std::fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tokens().fmt(f)
    }
}

/// Where a node hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parent {
    /// Directly below the root of a namespace.
    Root(u64),
    /// Below a full block.
    Node(NodeId),
}

#[derive(Debug)]
struct Node {
    parent: Parent,
    key: BlockKey,
    block: u32,
    children: BTreeMap<BlockKey, NodeId>,
    /// Sequences and leases whose path goes through this node.
    users: u32,
    last_used: u64,
}

/// What the tree holds of a token sequence.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Match {
    /// Full blocks, in order.
    pub(crate) nodes: Vec<NodeId>,
    /// A block whose first rows go on from there, and how many (1 to 15).
    pub(crate) partial: Option<(NodeId, usize)>,
}

impl Match {
    /// Rows held.
    pub(crate) fn rows(&self) -> usize {
        self.nodes.len() * BLOCK_TOKENS + self.partial.map_or(0, |(_, rows)| rows)
    }
}

/// What became of a block offered to the tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The tree owns it now.
    New {
        node: NodeId,
        /// A shorter block that the new one replaces.
        replaced: Option<u32>,
    },
    /// The tree has an equal block; the offered one stays with the caller.
    Present(NodeId),
    /// The tree has a longer block with the same beginning; the offered one stays with the caller.
    Covered,
}

/// A node as it is written to a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) node: NodeId,
    pub(crate) parent: Parent,
    pub(crate) tokens: &'a [u32],
    pub(crate) block: u32,
}

#[derive(Debug, Default)]
pub(crate) struct PrefixTree {
    nodes: Vec<Option<Node>>,
    vacant: Vec<NodeId>,
    roots: HashMap<u64, BTreeMap<BlockKey, NodeId>>,
    /// Leaves without users, least recently used first.
    evictable: BTreeSet<(u64, NodeId)>,
    /// Nodes without users, inner ones included.
    unused: usize,
    clock: u64,
}

impl PrefixTree {
    /// Nodes in the tree, one block each.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// Blocks that eviction could free, in time. A user of a node is a user of its ancestors, so everything
    /// below an unused node is unused.
    pub(crate) fn unused(&self) -> usize {
        self.unused
    }

    pub(crate) fn block(&self, node: NodeId) -> u32 {
        self.node(node).block
    }

    pub(crate) fn is_unused(&self, node: NodeId) -> bool {
        self.node(node).users == 0
    }

    /// The longest prefix of `tokens` held in a namespace.
    pub(crate) fn lookup(&self, namespace: u64, tokens: &[u32]) -> Match {
        let mut found = Match::default();
        let mut children = self.roots.get(&namespace);
        let mut rest = tokens;
        while let Some(siblings) = children {
            let key = BlockKey::first_of(rest);
            match siblings.get(&key) {
                Some(&node) if key.is_full() => {
                    found.nodes.push(node);
                    rest = &rest[BLOCK_TOKENS..];
                    children = Some(&self.node(node).children);
                }
                _ => {
                    found.partial = longest_common(siblings, &key);
                    break;
                }
            }
        }
        found
    }

    /// Offers the block of `key` below `parent`. A new node has no user.
    pub(crate) fn insert(&mut self, parent: Parent, key: BlockKey, block: u32) -> Inserted {
        let siblings = self.siblings(parent);
        if let Some(&node) = siblings.get(&key) {
            return Inserted::Present(node);
        }
        let next = siblings.range(key..).next();
        if next.is_some_and(|(other, _)| other.tokens().starts_with(key.tokens())) {
            return Inserted::Covered;
        }
        // No sibling is a prefix of another, so a prefix of the key can only be its predecessor.
        let shorter = siblings
            .range(..key)
            .next_back()
            .filter(|(other, _)| key.tokens().starts_with(other.tokens()))
            .map(|(_, &node)| node);
        self.clock += 1;
        let node = Node {
            parent,
            key,
            block,
            children: BTreeMap::new(),
            users: 0,
            last_used: self.clock,
        };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.nodes[id] = Some(node);
                id
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() - 1
            }
        };
        self.unused += 1;
        self.evictable.insert((self.clock, id));
        if let Parent::Node(parent) = parent {
            let (last_used, unused) = (self.node(parent).last_used, self.is_unused(parent));
            if unused {
                self.evictable.remove(&(last_used, parent));
            }
        }
        self.siblings(parent).insert(key, id);
        let replaced = shorter
            .filter(|&node| self.is_unused(node))
            .map(|node| self.remove(node));
        Inserted::New { node: id, replaced }
    }

    /// Counts one more user of a node.
    pub(crate) fn retain(&mut self, node: NodeId) {
        let entry = self.node_mut(node);
        entry.users += 1;
        if entry.users == 1 {
            let last_used = entry.last_used;
            self.unused -= 1;
            self.evictable.remove(&(last_used, node));
        }
    }

    /// Counts one user of every node of a path less, and marks the path as just used.
    pub(crate) fn release(&mut self, path: &[NodeId]) {
        self.clock += 1;
        let clock = self.clock;
        for &node in path {
            let entry = self.node_mut(node);
            entry.users -= 1;
            entry.last_used = clock;
            if entry.users == 0 {
                let leaf = entry.children.is_empty();
                self.unused += 1;
                if leaf {
                    self.evictable.insert((clock, node));
                }
            }
        }
    }

    /// Marks a node without users as just used.
    pub(crate) fn touch(&mut self, node: NodeId) {
        self.clock += 1;
        let clock = self.clock;
        let entry = self.node_mut(node);
        let before = std::mem::replace(&mut entry.last_used, clock);
        if self.evictable.remove(&(before, node)) {
            self.evictable.insert((clock, node));
        }
    }

    /// Removes the least recently used leaf that has no user and returns its block.
    pub(crate) fn evict(&mut self) -> Option<u32> {
        let &(_, node) = self.evictable.first()?;
        Some(self.remove(node))
    }

    /// Every node with its parents before it, the most recently used paths first.
    pub(crate) fn entries(&self) -> Vec<Entry<'_>> {
        let mut order: Vec<NodeId> = (0..self.nodes.len())
            .filter(|&id| self.nodes[id].is_some())
            .collect();
        order.sort_by_key(|&id| std::cmp::Reverse(self.node(id).last_used));
        let mut seen = vec![false; self.nodes.len()];
        let mut entries = Vec::with_capacity(order.len());
        for id in order {
            let mut path = Vec::new();
            let mut next = Some(id);
            while let Some(node) = next.filter(|&node| !seen[node]) {
                seen[node] = true;
                path.push(node);
                next = match self.node(node).parent {
                    Parent::Root(_) => None,
                    Parent::Node(parent) => Some(parent),
                };
            }
            entries.extend(path.into_iter().rev().map(|node| self.entry(node)));
        }
        entries
    }

    fn entry(&self, id: NodeId) -> Entry<'_> {
        let node = self.node(id);
        Entry {
            node: id,
            parent: node.parent,
            tokens: node.key.tokens(),
            block: node.block,
        }
    }

    /// Takes a leaf without users out of the tree and returns its block.
    pub(crate) fn remove(&mut self, id: NodeId) -> u32 {
        let node = self.nodes[id].take().expect("only present nodes are removed");
        debug_assert!(node.users == 0 && node.children.is_empty());
        self.vacant.push(id);
        self.unused -= 1;
        self.evictable.remove(&(node.last_used, id));
        let siblings = self.siblings(node.parent);
        siblings.remove(&node.key);
        let last = siblings.is_empty();
        match node.parent {
            Parent::Root(namespace) if last => {
                self.roots.remove(&namespace);
            }
            Parent::Node(parent) if last && self.is_unused(parent) => {
                self.evictable.insert((self.node(parent).last_used, parent));
            }
            Parent::Root(_) | Parent::Node(_) => {}
        }
        node.block
    }

    fn siblings(&mut self, parent: Parent) -> &mut BTreeMap<BlockKey, NodeId> {
        match parent {
            Parent::Root(namespace) => self.roots.entry(namespace).or_default(),
            Parent::Node(node) => &mut self.node_mut(node).children,
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        self.nodes[id]
            .as_ref()
            .expect("a node lives while a path names it")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id]
            .as_mut()
            .expect("a node lives while a path names it")
    }
}

/// The sibling with the longest common prefix, which is next to the key in order.
fn longest_common(siblings: &BTreeMap<BlockKey, NodeId>, key: &BlockKey) -> Option<(NodeId, usize)> {
    let before = siblings.range(..*key).next_back();
    let after = siblings.range(*key..).next();
    before
        .into_iter()
        .chain(after)
        .map(|(other, &node)| (node, other.common(key.tokens())))
        .filter(|&(_, rows)| rows > 0)
        .max_by_key(|&(_, rows)| rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Parent = Parent::Root(0);

    fn key(tokens: &[u32]) -> BlockKey {
        BlockKey::first_of(tokens)
    }

    fn block_of(start: u32) -> Vec<u32> {
        (start..start + BLOCK_TOKENS as u32).collect()
    }

    fn insert(tree: &mut PrefixTree, parent: Parent, tokens: &[u32], block: u32) -> NodeId {
        let Inserted::New { node, .. } = tree.insert(parent, key(tokens), block) else {
            panic!("{tokens:?} is in the tree already");
        };
        node
    }

    #[test]
    fn lookup_walks_full_blocks_and_ends_within_one() {
        let mut tree = PrefixTree::default();
        let first = insert(&mut tree, ROOT, &block_of(0), 7);
        let second = insert(&mut tree, Parent::Node(first), &block_of(16), 8);
        let tokens: Vec<u32> = (0..40).collect();
        let found = tree.lookup(0, &tokens);
        assert_eq!(found.nodes, [first, second]);
        assert_eq!(found.partial, None);
        let found = tree.lookup(0, &tokens[..31]);
        assert_eq!(
            (found.nodes.as_slice(), found.partial),
            ([first].as_slice(), Some((second, 15)))
        );
        assert_eq!(
            tree.lookup(1, &tokens),
            Match::default(),
            "another namespace sees nothing"
        );
    }

    #[test]
    fn the_longest_common_sibling_wins() {
        let mut tree = PrefixTree::default();
        insert(&mut tree, ROOT, &[1, 2, 3, 9], 0);
        let best = insert(&mut tree, ROOT, &[1, 2, 3, 4, 5], 1);
        insert(&mut tree, ROOT, &[1, 2, 4], 2);
        assert_eq!(tree.lookup(0, &[1, 2, 3, 4, 6]).partial, Some((best, 4)));
        assert_eq!(tree.lookup(0, &[2, 2]).partial, None);
    }

    #[test]
    fn a_longer_block_replaces_its_beginning_and_covers_it_later() {
        let mut tree = PrefixTree::default();
        insert(&mut tree, ROOT, &[1, 2], 0);
        insert(&mut tree, ROOT, &[1, 3], 1);
        assert!(matches!(
            tree.insert(ROOT, key(&[1, 2, 5]), 2),
            Inserted::New {
                replaced: Some(0),
                ..
            }
        ));
        assert_eq!(tree.insert(ROOT, key(&[1, 2]), 3), Inserted::Covered);
        assert_eq!(tree.len(), 2);
    }

    #[test]
    fn eviction_takes_the_oldest_unused_leaf_and_spares_paths_in_use() {
        let mut tree = PrefixTree::default();
        let stem = insert(&mut tree, ROOT, &block_of(0), 0);
        let old = insert(&mut tree, Parent::Node(stem), &block_of(100), 1);
        let used = insert(&mut tree, Parent::Node(stem), &block_of(200), 2);
        tree.retain(stem);
        tree.retain(used);
        assert_eq!(tree.unused(), 1);
        assert_eq!(tree.evict(), Some(1), "node {old}");
        assert_eq!(tree.evict(), None);
        tree.release(&[stem, used]);
        assert_eq!(tree.evict(), Some(2), "the leaf goes before its stem");
        assert_eq!(tree.evict(), Some(0));
        assert_eq!((tree.len(), tree.unused()), (0, 0));
        assert!(tree.roots.is_empty(), "an empty namespace leaves nothing behind");
    }

    #[test]
    fn entries_list_parents_first_and_recent_paths_first() {
        let mut tree = PrefixTree::default();
        let old = insert(&mut tree, Parent::Root(3), &block_of(0), 0);
        let stem = insert(&mut tree, ROOT, &block_of(0), 1);
        let leaf = insert(&mut tree, Parent::Node(stem), &[1, 2, 3], 2);
        let order: Vec<NodeId> = tree.entries().iter().map(|entry| entry.node).collect();
        assert_eq!(order, [stem, leaf, old]);
    }
}
