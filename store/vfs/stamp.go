package vfs

import "time"

// The kernel takes the times of changes from a clock that moves in steps. A file that was changed in the current
// step may be changed again without another stamp.
const (
	stampPause  = time.Millisecond
	stampPauses = 20 // more than a step, unless the file system's clock is ahead of that of this machine
)

// StampForReading is StampOf for a file that is about to be read: every later change gets another stamp. It waits for
// the clock of changes, a few milliseconds at most, if the file was changed just now. A file without a stamp has the zero one.
func StampForReading(f File) (Stamp, error) { return stampForReading(f, changeTime, time.Sleep) }

// stampForReading is StampForReading with the clock from which changes get their time.
func stampForReading(f File, clock func() int64, sleep func(time.Duration)) (s Stamp, err error) {
	for range stampPauses {
		var known bool
		if s, known, err = StampOf(f); err != nil || !known || s.Changed < clock() {
			return s, err
		}
		sleep(stampPause)
	}
	return s, nil
}

// Stamp tells whether a file may have changed: a file system sets at least one of these
// fields when the content changes, and Changed cannot be set by programs.
type Stamp struct {
	Size          int64
	Modified      int64 // nanoseconds since 1970
	Changed       int64 // of the content or the metadata, also by a rename; nanoseconds since 1970
	Device, Inode uint64
}

// settled is the time after a change in which a second change may get the same time. FAT
// counts in steps of 2 s, and kernels in steps of up to 10 ms.
const settled = 2 * time.Second

// Settled reports whether every change of the file after at gets another Stamp.
func (s Stamp) Settled(at time.Time) bool {
	from, now := at.Add(-settled).UnixNano(), at.UnixNano()
	return s.Changed < from && (s.Modified < from || s.Modified > now) // programs may set any time
}

// SameContent reports whether two stamps of an open file differ at most because it was renamed, or its metadata changed.
func (s Stamp) SameContent(as Stamp) bool { return s.Size == as.Size && s.Modified == as.Modified }

// StampOf returns the stamp of an open file. ok is false for files that have none: those
// in memory, in an fs.FS and on systems that do not record changes.
func StampOf(f File) (s Stamp, ok bool, err error) {
	if f, is := f.(stamped); is {
		return f.fileStamp()
	}
	return Stamp{}, false, nil
}

// SameFile reports whether a file, which [OpenDirect] may have opened, and one of Open are known to be the same.
func SameFile(a, b File) (bool, error) {
	if d, ok := a.(*directFile); ok {
		a = d.File
	}
	x, known, err := StampOf(a)
	if !known || err != nil {
		return false, err
	}
	y, known, err := StampOf(b)
	return known && x.Device == y.Device && x.Inode == y.Inode && x.Inode != 0, err
}

// stamped is implemented by files that have a stamp.
type stamped interface {
	fileStamp() (s Stamp, ok bool, err error)
}

func (f *osFile) fileStamp() (s Stamp, ok bool, err error) {
	s, ok, err = stampOf(f.f)
	return s, ok, wrap("stat", f.name, noOffset, err)
}

func (f *throttledFile) fileStamp() (Stamp, bool, error) { return StampOf(f.File) }

func (f *faultyFile) fileStamp() (Stamp, bool, error) {
	if err := f.faults.check(OpStat, f.Name(), noOffset, 0); err != nil {
		return Stamp{}, false, err
	}
	return StampOf(f.file)
}
