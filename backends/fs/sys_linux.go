package fs

import "syscall"

const (
	sysUnlinkat = syscall.SYS_UNLINKAT
	atRemoveDir = 0x200 // AT_REMOVEDIR, linux/fcntl.h
	keepSize    = 0x1   // FALLOC_FL_KEEP_SIZE, linux/falloc.h
)

// preallocate reserves the space of a file, so that a full disk is found before the bytes are made. It looks at the free space first:
// fallocate takes all there is before it fails, and a broker that shares the disk would fail with it. File systems that cannot
// do it find it later.
func preallocate(f syscall.Conn, size int64) error {
	var st syscall.Statfs_t
	err := control(f, func(fd uintptr) error { return syscall.Fstatfs(int(fd), &st) })
	if err == nil && st.Bsize > 0 && size/st.Bsize > int64(min(st.Bfree, 1<<62)) {
		return syscall.ENOSPC
	}
	err = control(f, func(fd uintptr) error { return syscall.Fallocate(int(fd), keepSize, 0, size) })
	if isAny(err, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL) {
		return nil
	}
	return err
}
