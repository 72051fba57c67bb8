package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// sessionSuffix is how names of sessions' files end.
const sessionSuffix = ".session"

// Sentinels for sessions that cannot be used as they are.
var (
	// ErrName: a session cannot have that name.
	ErrName = errors.New("no name for a session")
	// ErrMissing: a chunk that a session needs is not there.
	ErrMissing = errors.New("keys and values are missing")
)

// maxName is how many bytes the name of a session may have.
const maxName = 100

// CheckName refuses names that could not be those of files everywhere.
func CheckName(name string) error {
	fits := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r)
	}
	if name == "" || len(name) > maxName || name[0] == '.' || strings.Contains(name, vfs.TempMark) ||
		strings.ContainsFunc(name, func(r rune) bool { return !fits(r) }) {
		return fmt.Errorf("%w: %q; it is of letters, digits, dots, - and _, begins with no dot and has at most %d bytes", ErrName, name, maxName)
	}
	return nil
}

func (d *Dir) sessionPath(name string) string {
	return vfs.Join(vfs.Join(d.base, sessionsDir), name+sessionSuffix)
}

// SessionLock is the right to use a session, which at most one holder among all
// processes has.
type SessionLock struct {
	dir  *Dir
	name string
	lock io.Closer
}

// LockSession takes a session, whether it is there yet or not. If somebody else
// has it, the error wraps vfs.ErrLocked at once.
func (d *Dir) LockSession(name string) (*SessionLock, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := makeDir(d.fsys, vfs.Join(d.base, sessionsDir)); err != nil {
		return nil, err
	}
	lock, err := vfs.Lock(d.fsys, d.sessionPath(name)+lockSuffix)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", name, err)
	}
	return &SessionLock{d, name, lock}, nil
}

// Name returns the session's name.
func (l *SessionLock) Name() string { return l.name }

// Close gives the session back.
func (l *SessionLock) Close() error { return l.lock.Close() }

// Load returns the session as it was saved; the error wraps fs.ErrNotExist if it
// never was.
func (l *SessionLock) Load() (*Manifest, error) { return l.dir.Session(l.name) }

// Session reads a session without taking it.
func (d *Dir) Session(name string) (*Manifest, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	b, err := vfs.ReadFile(d.fsys, d.sessionPath(name), maxManifest)
	if err != nil {
		return nil, nameMissing(name, err)
	}
	return decodeManifest(d.sessionPath(name), b)
}

// nameMissing says of a file that is not there which session that is.
func nameMissing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no session %s: %w", name, err)
	}
	return err
}

// Save keeps a session in place of what was kept under its name. All its chunks
// have been written as durable ones. When Save has returned nil the session
// survives whatever happens; if it does not return, there is the old one or the
// new one. The error wraps ErrMissing if somebody has removed a chunk meanwhile,
// which then has to be written again.
func (l *SessionLock) Save(m *Manifest) (err error) {
	d := l.dir
	if err := d.lockForWriting(); err != nil {
		return err
	}
	// Whoever removes chunks looks at sessions under this lock: nothing that the
	// session needs can go between the look and the moment when it is pinned.
	lock, err := d.lockEviction()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := d.checkSegments(m); err != nil {
		return err
	}
	above, _ := vfs.Split(d.base) // somebody else may have made the directory
	for _, dir := range []string{d.segmentsPath(), d.base, above} {
		if err := d.fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return vfs.WriteFile(d.fsys, d.sessionPath(l.name), m.encode())
}

// checkSegments looks whether all chunks of a session are there.
func (d *Dir) checkSegments(m *Manifest) error {
	for i, name := range m.names() {
		_, err := d.fsys.Stat(d.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			d.mu.Lock()
			delete(d.verified, m.Segments[i].ID)
			delete(d.synced, m.Segments[i].ID)
			delete(d.open, m.Segments[i].ID) // who uses it goes on with what it has
			d.mu.Unlock()
			return fmt.Errorf("%w: %s", ErrMissing, d.path(name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// OpenSegments opens the chunks of a session. The caller closes them. The error
// names a chunk that is missing or damaged.
func (s *Store) OpenSegments(m *Manifest) (parts []Span, err error) {
	defer func() {
		if err != nil {
			err, parts = errors.Join(err, Close(parts)), nil
		}
	}()
	at := 0
	for i, name := range m.names() {
		f, err := s.acquire(name)
		if errors.Is(err, fs.ErrNotExist) {
			return parts, fmt.Errorf("%w: tokens %d to %d of the session: %w", ErrMissing, at, at+m.Segments[i].Pages*m.PageTokens-1, err)
		}
		if err != nil {
			return parts, err
		}
		parts = append(parts, Span{f, f.Pages()})
		at += len(f.tokens)
	}
	return parts, nil
}

// SessionNames returns the names of all sessions, sorted.
func (d *Dir) SessionNames() (names []string, err error) {
	files, err := d.fsys.ReadDir(vfs.Join(d.base, sessionsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name, sessionSuffix); ok && !f.IsDir && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// pinned returns the chunks that sessions need, except one session's. A session
// that is damaged can never be opened and needs nothing; one that cannot be read
// may need anything, and is an error.
func (d *Dir) pinned(except string) (map[ID]bool, error) {
	names, err := d.SessionNames()
	if err != nil {
		return nil, err
	}
	ids := map[ID]bool{}
	for _, name := range names {
		if name == except {
			continue
		}
		m, err := d.Session(name)
		switch {
		case errors.Is(err, store.ErrFormat), errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, err
		}
		for _, r := range m.Segments {
			ids[r.ID] = true
		}
	}
	return ids, nil
}

// RemoveSession deletes a session and those of its chunks that no other one
// needs and nobody here uses. It returns the bytes that are free now.
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
	if err := d.fsys.Remove(d.sessionPath(name)); err != nil || m == nil || len(m.Segments) == 0 {
		return 0, err
	}
	others, err := d.pinned(name)
	for i, file := range m.names() {
		id := m.Segments[i].ID
		if err != nil || others[id] || d.inUse(id) {
			continue
		}
		info, gone := d.fsys.Stat(d.path(file))
		if gone != nil {
			continue
		}
		if err = d.remove(Info{ID: id, Name: file}); err == nil {
			freed += info.Size
		}
	}
	return freed, err
}

// VerifySession reads all that belongs to a session and compares every byte with
// its checksum. It returns the bytes that it has read.
func (d *Dir) VerifySession(name string) (bytes int64, err error) {
	m, err := d.Session(name)
	if err != nil {
		return 0, err
	}
	for i, file := range m.names() {
		f, err := d.acquire(file, m.Segments[i].ID)
		if errors.Is(err, fs.ErrNotExist) {
			return bytes, fmt.Errorf("%w: %w", ErrMissing, err)
		}
		if err != nil {
			return bytes, err
		}
		err = errors.Join(f.VerifyAll(), f.Close())
		if bytes += f.Size(); err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// SessionBytes returns how many bytes a session's chunks take, shared ones
// included.
func (d *Dir) SessionBytes(m *Manifest) (bytes int64) {
	for _, name := range m.names() {
		if info, err := d.fsys.Stat(d.path(name)); err == nil {
			bytes += info.Size
		}
	}
	return bytes
}
