package vfs

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// fileBasicInfo is FILE_BASIC_INFO, with times in units of 100 ns.
type fileBasicInfo struct {
	created, accessed, modified, changed int64
	attributes                           uint32
	_                                    uint32
}

func stampOf(f *os.File) (s Stamp, ok bool, err error) {
	handle := windows.Handle(f.Fd())
	var id windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(handle, &id); err != nil {
		return s, false, err
	}
	var times fileBasicInfo
	if err := windows.GetFileInformationByHandleEx(handle, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&times)), uint32(unsafe.Sizeof(times))); err != nil {
		return s, false, err
	}
	const unix1970 = 116444736000000000 // in the units and from the start of Windows' times
	return Stamp{
		Size:     int64(id.FileSizeHigh)<<32 | int64(id.FileSizeLow),
		Modified: (times.modified - unix1970) * 100, Changed: (times.changed - unix1970) * 100,
		Device: uint64(id.VolumeSerialNumber), Inode: uint64(id.FileIndexHigh)<<32 | uint64(id.FileIndexLow),
	}, times.changed != 0, nil // FAT does not record changes of metadata
}
