//! The files that a build may read.

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A file and its bytes.
    File(&'a [u8]),
    /// A folder.
    Folder,
    /// A symbolic link and its target, relative to the folder it is in.
    Link(&'a str),
}

/// A read-only tree of files in memory.
pub trait Files {
    /// What is at `path`: names between slashes from the tree's root, without `.`, `..` or a leading slash; the root
    /// is the empty path. Links are not followed.
    fn entry(&self, path: &str) -> Option<Entry<'_>>;

    /// The folder or file of the tree that stands in for a remote address, if the caller brought it along.
    fn remote(&self, _address: &str) -> Option<String> {
        None
    }
}
