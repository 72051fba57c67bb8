package segment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
)

// ErrNoRoom reports that a segment does not fit into its directory or on the disk.
var ErrNoRoom = pack.ErrNoRoom

var errFormat = store.ErrFormat

const (
	// A directory without an explicit limit holds up to defaultBytes, and at most one
	// part in defaultDivisor of the space that is free on the disk or used by the
	// directory.
	defaultBytes   = 8 << 30
	defaultDivisor = 12
	// spareBytes of the disk always stay free.
	spareBytes = 256 << 20
)

// makeRoom makes room for a file of need bytes, besides which leave bytes of the disk stay
// free. It removes the least recently used segments, except those that this process uses
// and those that a session needs. If the file cannot fit in any case, makeRoom removes
// nothing and the error wraps ErrNoRoom.
func (d *Dir) makeRoom(need, leave int64) error {
	if err := d.lockForWriting(); err != nil {
		return err
	}
	if fits, err := d.room(need, leave); fits || err != nil {
		return err
	}
	lock, err := d.lockEviction()
	if err != nil {
		return err
	}
	defer lock.Close()
	list, err := d.List()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, c := range list {
		total += c.Bytes
	}
	list = slices.DeleteFunc(list, func(c Info) bool { return c.Pinned || d.inUse(c.ID) })
	slices.SortFunc(list, func(a, b Info) int { return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(a.Name, b.Name)) })
	remaining := total
	for _, c := range list {
		remaining -= c.Bytes
	}
	limit, free, known := d.bounds(total)
	if remaining+need > limit {
		return fmt.Errorf("%w: a segment of %d bytes: %d bytes in %s are in use or belong to sessions, and the limit is %d", ErrNoRoom, need, remaining, d.segmentsPath(), limit)
	}
	if known && need+leave > free+total-remaining {
		return fmt.Errorf("%w: a segment of %d bytes: the disk of %s has %d bytes left besides the reserve of %d", ErrNoRoom, need, d.segmentsPath(), max(0, free), d.spare+leave)
	}
	for _, c := range list {
		if fits, err := d.room(need, leave); fits || err != nil {
			return err
		}
		if err := d.remove(c); err != nil {
			continue // in use: some systems do not remove open files
		}
	}
	if fits, err := d.room(need, leave); !fits {
		return errors.Join(err, fmt.Errorf("%w: segments in %s could not be removed", ErrNoRoom, d.segmentsPath()))
	}
	return nil
}

// room reports whether need more bytes fit, and leave bytes stay free.
func (d *Dir) room(need, leave int64) (bool, error) {
	files, err := d.fsys.ReadDir(d.segmentsPath())
	if err != nil {
		return false, err
	}
	total := int64(0)
	for _, f := range files {
		// Only those with the key can remove encrypted segments. Scratch files are no segments, and end with their process.
		if !f.IsDir && !vfs.IsSealedName(f.Name) && !vfs.IsScratchName(f.Name) {
			total += f.Size // temporary files of other processes count as well
		}
	}
	limit, free, known := d.bounds(total)
	return total+need <= limit && (!known || need+leave <= free), nil
}

// bounds returns the size limit of all segments and the bytes that the disk can still
// take. total is the size of the existing segments. known is false if the disk does not
// report its free space.
func (d *Dir) bounds(total int64) (limit, free int64, known bool) {
	free, known = vfs.FreeSpace(d.fsys, d.segmentsPath())
	limit = d.limit
	if limit == 0 {
		limit = defaultBytes
		if known {
			limit = min(limit, (free+total)/defaultDivisor)
		}
	}
	return limit, free - d.spare, known
}

func (d *Dir) inUse(id ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open[id] != nil
}

// remove deletes a segment, the state behind it, and what this process recorded about it. The state goes first: nothing
// needs a state without its segment.
func (d *Dir) remove(c Info) error {
	d.mu.Lock()
	delete(d.verified, c.ID)
	delete(d.synced, c.ID)
	d.mu.Unlock()
	if err := d.removeState(c.ID); err != nil {
		return err
	}
	if err := d.fsys.Remove(d.path(c.Name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Clean removes all segments that no session needs and this process does not use. It
// returns their number and size. After it returns nil, a power loss does not bring the
// files back.
func (d *Dir) Clean() (count int, bytes int64, err error) {
	return d.clean(func(Info) bool { return true })
}

// clean is Clean for the segments that old selects.
func (d *Dir) clean(old func(Info) bool) (count int, bytes int64, err error) {
	list, err := d.List()
	if len(list) == 0 || err != nil {
		return 0, 0, err
	}
	lock, err := d.lockEviction()
	if err != nil {
		return 0, 0, err
	}
	defer lock.Close()
	if list, err = d.List(); err != nil {
		return 0, 0, err
	}
	for _, c := range list {
		if c.Pinned || d.inUse(c.ID) || !old(c) {
			continue
		}
		if removed := d.remove(c); removed != nil {
			err = errors.Join(err, removed)
			continue
		}
		count, bytes = count+1, bytes+c.Bytes
	}
	if count > 0 {
		err = errors.Join(err, d.fsys.SyncDir(d.segmentsPath()))
	}
	return count, bytes, err
}
