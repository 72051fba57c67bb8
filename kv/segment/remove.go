package segment

import (
	"errors"
	"io/fs"
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
// continue an answer which was later replaced. See [Dir.textSegments]. If the session is damaged, nothing
// says which they are: every segment that no other session needs may be one.
func (d *Dir) RemoveSession(name string) (freed int64, err error) { return d.removeSession(name, true) }

// removeSession is RemoveSession. Without unknown it leaves the segments that a damaged session may need.
func (d *Dir) removeSession(name string, unknown bool) (freed int64, err error) {
	if err := CheckName(name); err != nil {
		return 0, err
	}
	if _, err := d.Session(name); err != nil && !removable(err) {
		return 0, err
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
	if err != nil && !removable(err) {
		return 0, err
	}
	var text []Info
	switch {
	case m != nil:
		text, err = d.textOnly(m, name)
	case !unknown, errors.Is(err, vfs.ErrNotRegular): // a link says nothing about the segments here
		err = nil
	default:
		text, err = d.unneeded(name)
	}
	if err != nil {
		return 0, err
	}
	if err := d.fsys.Remove(d.sessionPath(name)); err != nil {
		return 0, err
	}
	freed, err = d.removeAll(text)
	return freed, errors.Join(err, d.fsys.SyncDir(d.sessionsPath()), d.fsys.SyncDir(d.segmentsPath()))
}

// removable reports whether a session that cannot be read may be removed: it is damaged, of another
// version, or a link, which another program made and which is removed without what it leads to.
func removable(err error) bool {
	return errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrUnsupported) || errors.Is(err, vfs.ErrNotRegular)
}

// textOnly returns the segments that may hold text of a session and that no other session
// needs.
func (d *Dir) textOnly(m *Manifest, name string) ([]Info, error) {
	list, err := d.files()
	if err != nil {
		return nil, err
	}
	held, err := d.textSegments(m, list)
	if err != nil || len(held) == 0 {
		return nil, err
	}
	others, err := d.pinned(name)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(c Info) bool { return !held[c.ID] || others[c.ID] || d.inUse(c.ID) }), nil
}

// unneeded returns the segments that no session but the one with a name needs. If that one cannot be read, each of them
// may hold its text. If another session cannot be read either, it may need any of them, and none is returned.
func (d *Dir) unneeded(name string) ([]Info, error) {
	others, err := d.pinned(name)
	if errors.Is(err, store.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := d.files()
	return slices.DeleteFunc(list, func(c Info) bool { return others[c.ID] || d.inUse(c.ID) }), err
}

// removeAll removes segments, also after one that cannot be removed.
func (d *Dir) removeAll(list []Info) (freed int64, err error) {
	for _, c := range list {
		if failed := d.remove(c); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		freed += c.Bytes
	}
	return freed, err
}

// textSegments returns the segments of a list that may hold text of a session: those that
// begin like it, or as it did before, whatever model and settings wrote them, and all that continue such a
// segment. Segments record tokens but not conversations, so a segment of another text that
// shares the first page, such as a system prompt, is one of them too.
//
// So is a state without a segment, whose text nothing says.
//
// A segment whose header is damaged holds no text that anything finds. One that cannot be
// read may hold some, so it is an error.
func (d *Dir) textSegments(m *Manifest, list []Info) (map[ID]bool, error) {
	held := map[ID]bool{}
	for _, r := range m.Segments {
		held[r.ID] = true
	}
	children := map[ID][]ID{}
	for _, c := range list {
		if _, alone := stateSegment(c.Name); alone {
			held[c.ID] = true
			continue
		}
		f, err := d.openFile(d.path(c.Name))
		switch {
		case errors.Is(err, store.ErrFormat), errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		page := f.layout.PageTokens
		if f.start == 0 && (len(m.Tokens) >= page && slices.Equal(f.tokens[:page], m.Tokens[:page]) ||
			slices.ContainsFunc(m.Former, func(b Beginning) bool { return b.begins(f.tokens) })) {
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
	return held, nil
}
