package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// Store gives access to the segments of one model and its settings.
type Store struct {
	dir    *Dir
	key    ID
	layout Layout
	leave  int64 // see Leaving
}

// Store returns the store for a key, which NewKey has computed from the same layout.
func (d *Dir) Store(key ID, layout Layout) (*Store, error) {
	if err := layout.check(); err != nil {
		return nil, err
	}
	return &Store{dir: d, key: key, layout: layout}, nil
}

// Leaving returns the same store for writes that leave so many bytes of the disk, and of what
// LimitWrites allows, to others.
func (s *Store) Leaving(bytes int64) *Store {
	leaving := *s
	leaving.leave = bytes
	return &leaving
}

// Key returns the ID of an empty sequence, the parent of every first segment.
func (s *Store) Key() ID { return s.key }

// PageTokens returns the number of tokens of a page.
func (s *Store) PageTokens() int { return s.layout.PageTokens }

// Span is the first pages of a segment.
type Span struct {
	File  *File
	Pages int
}

// Close closes the segments of spans.
func Close(spans []Span) (err error) {
	for _, p := range spans {
		err = errors.Join(err, p.File.Close())
	}
	return err
}

// Lookup returns the segments with the longest prefix of tokens in whole pages, in
// order; the last span may be a part of its segment. The caller closes them. The
// returned spans are valid even if err is not nil: err names segments that could not
// be used. Lookup removes damaged segments that no session needs.
func (s *Store) Lookup(tokens []int32) (spans []Span, err error) { return s.lookup(tokens, false) }

// LookupWhole is Lookup, but returns whole segments only: behind others, no recurrent state is known.
func (s *Store) LookupWhole(tokens []int32) (spans []Span, err error) { return s.lookup(tokens, true) }

func (s *Store) lookup(tokens []int32, whole bool) (spans []Span, err error) {
	files, err := s.dir.fsys.ReadDir(s.dir.segmentsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parent, at, page := s.key, 0, s.layout.PageTokens
	for len(tokens)-at >= page {
		best, failed := s.best(files, parent, tokens[at:], whole)
		err = errors.Join(err, failed)
		if best.File == nil {
			break
		}
		spans = append(spans, best)
		if best.Pages < best.File.Pages() {
			break // the following segments continue other tokens
		}
		parent, at = best.File.ID(), at+best.Pages*page
	}
	// Record the use, so that parents are evicted after their children. On a read-only
	// disk this fails, and the segments can be used all the same.
	for _, p := range slices.Backward(spans) {
		_ = vfs.Touch(s.dir.fsys, p.File.path)
	}
	return spans, err
}

// best returns the segment with the given parent that shares the most pages with
// tokens; with whole set, among those of which all do.
func (s *Store) best(files []vfs.Info, parent ID, tokens []int32, whole bool) (best Span, err error) {
	first := namePrefix(parent, tokens[:s.layout.PageTokens])
	from, _ := slices.BinarySearchFunc(files, first, func(f vfs.Info, name string) int { return strings.Compare(f.Name, name) })
	for _, info := range files[from:] {
		if !strings.HasPrefix(info.Name, first) {
			break
		}
		f, failed := s.acquire(info.Name)
		if errors.Is(failed, fs.ErrNotExist) {
			continue // another process has just removed it
		}
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		pages := commonPages(f.tokens, tokens, s.layout.PageTokens)
		if pages <= best.Pages || f.parent != parent || whole && pages < f.Pages() {
			err = errors.Join(err, f.Close())
			continue
		}
		if best.File != nil {
			err = errors.Join(err, best.File.Close())
		}
		best = Span{f, pages}
	}
	return best, err
}

// commonPages returns the number of whole pages in the common prefix of two
// sequences.
func commonPages(a, b []int32, page int) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n / page
}

// acquire opens a segment of this store by its file name.
func (s *Store) acquire(name string) (*File, error) {
	id, ok := idOf(name)
	if !ok {
		return nil, fmt.Errorf("segment: %q is not the file name of a segment", name)
	}
	f, err := s.dir.acquire(name, id)
	if err != nil {
		if errors.Is(err, store.ErrFormat) {
			err = errors.Join(err, s.dir.discard(name, id))
		}
		return nil, err
	}
	if f.key != s.key || !f.layout.equal(s.layout) {
		err := refuser(f.path)(48, "key", store.ErrFormat, "the segment belongs to another model or other settings")
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Discard removes a damaged segment. If a session needs it, the file stays until
// Write replaces it, so that the session can report the damage.
func (s *Store) Discard(f *File) error { return s.dir.discard(f.name(), f.id) }

func (d *Dir) discard(name string, id ID) error {
	d.mu.Lock()
	delete(d.verified, id)
	d.damaged[id] = true
	delete(d.open, id) // current users keep their open file
	d.mu.Unlock()
	pinned, err := d.pinned("")
	if err != nil || pinned[id] {
		return err
	}
	return d.remove(Info{ID: id, Name: name})
}

// Write writes a segment, or returns the existing one with the same contents. The
// segment continues parent, after start tokens. A durable segment survives power loss
// once a session that needs it has been saved. Other segments may be lost, but a
// partially written one is detected. It writes the bytes with write. The caller closes the segment.
func (s *Store) Write(parent ID, start int, tokens []int32, page Pages, durable bool, write WriteFunc) (*File, error) {
	h, err := s.newHeader(parent, start, tokens)
	if err != nil {
		return nil, err
	}
	f, err := s.acquire(h.name())
	damaged := s.dir.isDamaged(h.id)
	if err == nil && (durable || damaged) {
		err = s.dir.ensureDurable(f)
		if err != nil {
			err = errors.Join(err, f.Close()) // first: some systems do not remove open files
		}
		var lost *syncError
		if errors.As(err, &lost) && !errors.Is(err, fs.ErrPermission) {
			err = errors.Join(err, s.dir.discard(h.name(), h.id))
		}
	}
	switch {
	case err == nil:
		return f, nil
	case damaged: // replace the damaged file
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, store.ErrFormat) && !errors.Is(err, fs.ErrPermission):
		return nil, err
	}
	if s.dir.allow != nil {
		if err := s.dir.allow(h.fileBytes(), s.leave); err != nil {
			return nil, err
		}
	}
	if err := s.dir.makeRoom(h.fileBytes(), s.leave); err != nil {
		return nil, err
	}
	if err := s.dir.publish(h, page, durable, write); err != nil {
		return nil, err
	}
	s.dir.mu.Lock()
	delete(s.dir.open, h.id) // a damaged file of the same name
	s.dir.verified[h.id] = true
	delete(s.dir.damaged, h.id)
	s.dir.synced[h.id] = durable
	s.dir.mu.Unlock()
	return s.acquire(h.name())
}

// newHeader returns the header of a new segment.
func (s *Store) newHeader(parent ID, start int, tokens []int32) (*header, error) {
	page := s.layout.PageTokens
	pages := len(tokens) / page
	if pages < 1 || pages > MaxPages || len(tokens)%page != 0 || start%page != 0 {
		return nil, fmt.Errorf("segment: %d tokens at position %d do not make 1 to %d whole pages of %d tokens", len(tokens), start, MaxPages, page)
	}
	return &header{
		id: Next(parent, tokens), parent: parent, key: s.key, layout: s.layout,
		start: start, pages: pages, tokens: slices.Clone(tokens),
	}, nil
}

// syncError is the error of a sync: the bytes of the file must be considered lost, unless the system refuses to sync
// files that were opened for reading.
type syncError struct{ error }

// Unwrap returns the reason.
func (s *syncError) Unwrap() error { return s.error }

// ensureDurable verifies an existing segment and syncs it to the disk, unless this
// process has already done so.
func (d *Dir) ensureDurable(f *File) error {
	d.mu.Lock()
	good, synced := d.verified[f.id], d.synced[f.id]
	d.mu.Unlock()
	if !good {
		if err := f.VerifyAll(); err != nil {
			return err
		}
	}
	if !synced {
		if err := f.file.Sync(); err != nil {
			return &syncError{err}
		}
	}
	d.mu.Lock()
	d.verified[f.id], d.synced[f.id] = true, true
	delete(d.damaged, f.id)
	d.mu.Unlock()
	return nil
}

func (d *Dir) isDamaged(id ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.damaged[id]
}
