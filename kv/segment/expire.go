package segment

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/store/vfs"
)

// Removed counts what Expire removed.
type Removed struct {
	Sessions, Segments int
	Bytes              int64 // of segments, those of sessions included
}

// Expire removes the sessions that were last saved before a time, with all segments that may
// hold their text (see RemoveSession), and the segments without a session that were last used
// before it. It spares sessions and segments in use. The age of a damaged session is that of its
// file; which segments are its own is not known, so that each goes by its own age. After Expire
// returns nil, a power loss does not bring the files back.
func (d *Dir) Expire(before time.Time) (r Removed, err error) {
	names, err := d.SessionNames()
	if err != nil {
		return r, err
	}
	for _, name := range names {
		if !d.savedAt(name).Before(before) {
			continue
		}
		freed, failed := d.removeSession(name, false)
		r.Bytes += freed
		switch {
		case failed == nil:
			r.Sessions++
		case !errors.Is(failed, vfs.ErrLocked):
			err = errors.Join(err, failed)
		}
	}
	count, bytes, failed := d.clean(func(c Info) bool { return !c.Used.IsZero() && c.Used.Before(before) })
	r.Segments, r.Bytes = count, r.Bytes+bytes
	return r, errors.Join(err, failed)
}

// savedAt returns when a session was last saved; now, if that is unknown.
func (d *Dir) savedAt(name string) time.Time {
	if m, err := d.Session(name); err == nil {
		return m.Saved
	}
	if at, ok := vfs.LastUsed(d.fsys, d.sessionPath(name)); ok {
		return at
	}
	return time.Now()
}
