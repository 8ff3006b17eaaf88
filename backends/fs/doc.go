// Package fs is a store in a directory: the embedded default. Its layout is that of the plug-in's FileSystemStorage: the object of key
// "topic-id/0/x.log" is the file topic-id/0/x.log below the root, directories come and go with their objects.
//
// # Configuration
//
// storage.backend=fs and storage.root=/path to an existing directory. storage.fs.fsync=false gives up durability across a crash of the
// machine for speed; a crash of the process alone loses nothing either way.
//
// # Consistency
//
// An object is written under .tierkit/tmp in the same root, made durable, and moved to its name in one step: a reader sees the old
// object or the new one, whole. With fsync the file, its directory and every directory made for it are on disk when Put returns,
// and the removal is when Delete does. A reader keeps the file that it opened. IfAbsent is a hard link: of several processes
// exactly one succeeds. Listings and reads by other processes see everything at once (as far as a network file system does).
//
// Info.Version is made of inode, modification time and size. Every Put makes a new inode and sets the time itself, strictly increasing
// within a process, so that no two Puts of one process share a Version, and two of different processes only if they meet in all
// three. A file that somebody changes in place gets another Version as far as its modification time moves; file systems
// with coarse times see less.
//
// Temp files are held by flock while they are written. Opening the store removes those that nobody holds: what a crash left.
//
// Regular files are objects, and symbolic links to regular files inside the root; other files, links to directories and names that are
// not UTF-8 are not seen. Nothing outside the root is ever reached (os.Root).
//
// # Errors
//
// ENOENT is NotFound, but if the root itself was removed or replaced InvalidArgument. ENOSPC, EDQUOT and EFBIG are Exhausted; EACCES, EPERM
// and EROFS Denied; EIO, ESTALE and a lack of descriptors or memory Unavailable. A Put whose last steps fail after the object
// became visible (fsync of a directory) is Ambiguous.
//
// # Limits
//
// Keys of 1,024 bytes, each segment at most 255; "a" and "a/b" cannot both be objects, and no segment is empty, "." or "..". On file
// systems that fold case or normalise Unicode (macOS), keys that differ only there are one. Objects are as large as the file
// system allows. A Put uses one buffer of 256 KiB. It runs on Linux and macOS; only Linux reserves the space of a Put in advance.
//
// # Permissions
//
// Read and search on the root for reading; write as well for Put, Delete and the temp files. Files and directories are made with the
// process's umask.
package fs
