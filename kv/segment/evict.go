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

// ErrNoRoom says that a chunk does not fit: into its directory or on the disk.
var ErrNoRoom = pack.ErrNoRoom

var errFormat = store.ErrFormat

const (
	// defaultBytes and defaultDivisor bound a directory for which nothing else is
	// asked: this much, and no more than this part of the disk's space that is
	// free or the directory's.
	defaultBytes   = 8 << 30
	defaultDivisor = 12
	// spareBytes stay free on the disk in any case.
	spareBytes = 256 << 20
)

// makeRoom prepares the directory for a file of need bytes: chunks that were not
// used for longest go, except those that this process uses and those that a
// session needs. If it cannot fit at all, nothing is removed and the error wraps
// ErrNoRoom.
func (d *Dir) makeRoom(need int64) error {
	if err := d.lockForWriting(); err != nil {
		return err
	}
	if fits, err := d.room(need); fits || err != nil {
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
	kept := total
	for _, c := range list {
		kept -= c.Bytes
	}
	limit, free, known := d.bounds(total)
	if kept+need > limit {
		return fmt.Errorf("%w: keys and values of %d bytes, %d bytes in %s are in use or belong to sessions, and it may hold %d", ErrNoRoom, need, kept, d.segmentsPath(), limit)
	}
	if known && need > free+total-kept {
		return fmt.Errorf("%w: keys and values of %d bytes, and the disk of %s has %d bytes to spare beside %d that stay free", ErrNoRoom, need, d.segmentsPath(), max(0, free), d.spare)
	}
	for _, c := range list {
		if fits, err := d.room(need); fits || err != nil {
			return err
		}
		if err := d.remove(c); err != nil {
			continue // in use, on systems that do not let go of open files
		}
	}
	if fits, err := d.room(need); !fits {
		return errors.Join(err, fmt.Errorf("%w: chunks in %s could not be removed", ErrNoRoom, d.segmentsPath()))
	}
	return nil
}

// room reports whether need bytes more fit.
func (d *Dir) room(need int64) (bool, error) {
	files, err := d.fsys.ReadDir(d.segmentsPath())
	if err != nil {
		return false, err
	}
	total := int64(0)
	for _, f := range files {
		if !f.IsDir {
			total += f.Size // temporary files of others count as well
		}
	}
	limit, free, known := d.bounds(total)
	return total+need <= limit && (!known || need <= free), nil
}

// bounds returns how many bytes of chunks there may be, total of which are there,
// and how many the disk can take.
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

// remove deletes a chunk. What this process knew about it no longer holds.
func (d *Dir) remove(c Info) error {
	d.mu.Lock()
	delete(d.verified, c.ID)
	delete(d.synced, c.ID)
	d.mu.Unlock()
	if err := d.fsys.Remove(d.path(c.Name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Clean removes all chunks that no session needs and this process does not use.
// It returns how many there were and their bytes.
func (d *Dir) Clean() (count int, bytes int64, err error) {
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
		if c.Pinned || d.inUse(c.ID) {
			continue
		}
		if removed := d.remove(c); removed != nil {
			err = errors.Join(err, removed)
			continue
		}
		count, bytes = count+1, bytes+c.Bytes
	}
	return count, bytes, err
}
