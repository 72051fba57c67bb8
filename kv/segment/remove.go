package segment

import (
	"errors"
	"maps"
	"slices"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// RemoveSession deletes a session and every segment that may hold its text, except those
// that another session needs and those that this process uses. It returns the number of
// bytes freed. After it returns nil, a power loss does not bring the files back.
//
// The segments are not only those that the session names: token ids of the same text are
// also in segments that an earlier save left behind, that other settings wrote, or that
// continue an answer which was later replaced. See [Dir.textSegments].
func (d *Dir) RemoveSession(name string) (freed int64, err error) {
	if err := CheckName(name); err != nil {
		return 0, err
	}
	if _, err := d.fsys.Stat(d.sessionPath(name)); err != nil {
		return 0, nameMissing(name, err)
	}
	l, err := d.LockSession(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := d.lockForWriting(); err != nil {
		return 0, err
	}
	lock, err := d.lockEviction()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	m, err := l.Load()
	if err != nil && !errors.Is(err, store.ErrFormat) && !errors.Is(err, store.ErrUnsupported) {
		return 0, err
	}
	if err := d.fsys.Remove(d.sessionPath(name)); err != nil {
		return 0, err
	}
	err = nil // a damaged session can be removed, but does not say which segments hold its text
	if m != nil {
		freed, err = d.removeText(m)
	}
	return freed, errors.Join(err, d.fsys.SyncDir(vfs.Join(d.base, sessionsDir)), d.fsys.SyncDir(d.segmentsPath()))
}

// removeText removes the segments that may hold the text of a session, which has been
// removed.
func (d *Dir) removeText(m *Manifest) (freed int64, err error) {
	list, err := d.files()
	if err != nil {
		return 0, err
	}
	held := d.textSegments(m, list)
	if len(held) == 0 {
		return 0, nil
	}
	others, err := d.pinned("")
	if err != nil {
		return 0, err
	}
	for _, c := range list {
		if !held[c.ID] || others[c.ID] || d.inUse(c.ID) {
			continue
		}
		if failed := d.remove(c); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		freed += c.Bytes
	}
	return freed, err
}

// textSegments returns the segments of a list that may hold text of a session: those that
// begin like it, whatever model and settings wrote them, and all that continue such a
// segment. Segments record tokens but not conversations, so a segment of another text that
// shares the first page, such as a system prompt, is one of them too.
func (d *Dir) textSegments(m *Manifest, list []Info) map[ID]bool {
	held := map[ID]bool{}
	for _, r := range m.Segments {
		held[r.ID] = true
	}
	children := map[ID][]ID{}
	for _, c := range list {
		f, err := openFile(d.fsys, d.path(c.Name))
		if err != nil {
			continue // its header is damaged, so nothing finds its text
		}
		page := f.layout.PageTokens
		if f.start == 0 && len(m.Tokens) >= page && slices.Equal(f.tokens[:page], m.Tokens[:page]) {
			held[c.ID] = true
		}
		children[f.parent] = append(children[f.parent], c.ID)
		_ = f.file.Close() // it was only read
	}
	for queue := slices.Collect(maps.Keys(held)); len(queue) > 0; queue = queue[1:] {
		for _, id := range children[queue[0]] {
			if !held[id] {
				held[id] = true
				queue = append(queue, id)
			}
		}
	}
	return held
}
