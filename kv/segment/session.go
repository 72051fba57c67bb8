package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"unicode"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// sessionSuffix is the extension of session files.
const sessionSuffix = ".session"

// Errors about sessions.
var (
	// ErrName reports an invalid session name.
	ErrName = errors.New("invalid session name")
	// ErrMissing reports that a segment of a session does not exist.
	ErrMissing = errors.New("keys and values are missing")
)

// maxName is the maximum length of a session name in bytes.
const maxName = 100

// CheckName returns an error for names that are not valid file names on every system.
func CheckName(name string) error {
	fits := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_.", r)
	}
	if name == "" || len(name) > maxName || name[0] == '.' || strings.Contains(name, vfs.TempMark) ||
		strings.ContainsFunc(name, func(r rune) bool { return !fits(r) }) {
		return fmt.Errorf("%w: %q: use letters, digits, dots, - and _, at most %d bytes, no dot at the beginning", ErrName, name, maxName)
	}
	return nil
}

// checkDevice returns an error for a new session with the name of a device of Windows, which is one with any extension. A
// session that exists has been saved elsewhere, and stays usable there.
func (d *Dir) checkDevice(name string) error {
	if !isDevice(name) {
		return nil
	}
	if _, err := d.fsys.Stat(d.sessionPath(name)); err == nil && runtime.GOOS != "windows" {
		return nil
	}
	return fmt.Errorf("%w: %q is a device on Windows; use another name", ErrName, name)
}

// isDevice reports whether the part of a name before the first dot is reserved for a device of Windows.
func isDevice(name string) bool {
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	switch name {
	case "con", "prn", "aux", "nul":
		return true
	}
	for _, port := range []string{"com", "lpt"} {
		if n, ok := strings.CutPrefix(name, port); ok && len(n) == 1 && strings.Contains("0123456789", n) {
			return true
		}
	}
	return false
}

func (d *Dir) sessionPath(name string) string {
	return vfs.Join(d.sessionsPath(), name+sessionSuffix)
}

// SessionLock is the lock of a session. At most one process holds it.
type SessionLock struct {
	dir  *Dir
	name string
	lock io.Closer
	// saved is the session as it was last read or written under the lock, with what addFormer needs; nil: not yet.
	saved *Manifest
}

// LockSession locks a session, which need not exist. If another process holds the
// lock, LockSession does not wait and the error wraps vfs.ErrLocked.
func (d *Dir) LockSession(name string) (*SessionLock, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := d.checkDevice(name); err != nil {
		return nil, err
	}
	if err := makeDir(d.fsys, d.sessionsPath()); err != nil {
		return nil, err
	}
	lock, err := vfs.Lock(d.fsys, d.sessionPath(name)+lockSuffix)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", name, err)
	}
	return &SessionLock{dir: d, name: name, lock: lock}, nil
}

// Name returns the session's name.
func (l *SessionLock) Name() string { return l.name }

// Close releases the lock.
func (l *SessionLock) Close() error { return l.lock.Close() }

// Load returns the saved session; the error wraps fs.ErrNotExist if there is none.
func (l *SessionLock) Load() (*Manifest, error) { return l.dir.Session(l.name) }

// Session reads a session without locking it.
func (d *Dir) Session(name string) (*Manifest, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	b, err := vfs.ReadFile(d.fsys, d.sessionPath(name), maxManifest)
	if err != nil {
		return nil, nameMissing(name, unsealed(d.sessionPath(name), err))
	}
	return decodeManifest(d.sessionPath(name), b)
}

// nameMissing adds the session's name to the error of a missing file.
func nameMissing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("session %s does not exist: %w", name, err)
	}
	return err
}

// Save writes a session and replaces the previous version. All its segments must have
// been written as durable. After Save returns nil, the session survives a power loss;
// a crash during Save leaves the old or the new version. The error wraps ErrMissing
// if another process has removed a segment meanwhile; the caller then writes that
// segment again.
func (l *SessionLock) Save(m *Manifest) (err error) {
	if err := l.remember(); err != nil {
		return err
	}
	m.Former = addFormer(l.saved, m)
	d, encoded := l.dir, m.encode()
	if len(encoded) > maxManifest { // nobody could load it
		return fmt.Errorf("segment: session %s: its messages and tokens take %d bytes, and a session at most %d", l.name, len(encoded), maxManifest)
	}
	if err := d.lockForWriting(); err != nil {
		return err
	}
	// Eviction reads the sessions under the same lock. Therefore no segment of this
	// session can be removed between the check and the moment when it is pinned.
	lock, err := d.lockEviction()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := d.checkSegments(m); err != nil {
		return err
	}
	above, _ := vfs.Split(d.base) // another process may have created the directory
	for _, dir := range []string{d.segmentsPath(), d.base, above} {
		if err := d.fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := vfs.WriteFile(d.fsys, d.sessionPath(l.name), encoded); err != nil {
		return err
	}
	l.saved = &Manifest{Tokens: m.Tokens[:min(len(m.Tokens), m.PageTokens)], PageTokens: m.PageTokens, Former: m.Former}
	return nil
}

// remember reads what the session was before it is replaced. A session that cannot be read says nothing.
func (l *SessionLock) remember() error {
	if l.saved != nil {
		return nil
	}
	before, err := l.Load()
	switch {
	case err == nil:
		l.saved = before
	case errors.Is(err, fs.ErrNotExist), removable(err):
		l.saved = &Manifest{}
	default:
		return err
	}
	return nil
}

// checkSegments returns an error if a segment of a session does not exist.
func (d *Dir) checkSegments(m *Manifest) error {
	for i, name := range m.names() {
		_, err := d.fsys.Stat(d.path(name))
		if errors.Is(err, fs.ErrNotExist) {
			d.mu.Lock()
			delete(d.verified, m.Segments[i].ID)
			delete(d.synced, m.Segments[i].ID)
			delete(d.open, m.Segments[i].ID) // current users keep their open file
			d.mu.Unlock()
			return fmt.Errorf("%w: %s", ErrMissing, d.path(name))
		}
		if err != nil {
			return err
		}
		if err := d.keepSegment(m.Segments[i].ID, name); err != nil {
			return err
		}
	}
	return nil
}

// keepSegment syncs a segment, and the state behind it, unless the file is the one that this process has synced: another
// process may have evicted that one since, and written the same segment again. The caller holds the lock of evictions.
func (d *Dir) keepSegment(id ID, name string) error {
	_, err := d.fsys.Stat(d.statePath(id))
	if err == nil {
		err = d.keepState(id, true)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	held := d.open[id]
	if held != nil && d.synced[id] {
		held.Retain()
	} else {
		held = nil
	}
	d.mu.Unlock()
	f, err := d.fsys.Open(d.path(name))
	if err == nil {
		same := false
		if held != nil {
			same, err = vfs.SameFile(held.file, f)
		}
		if err == nil && !same {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if held != nil {
		err = errors.Join(err, held.Close())
	}
	if errors.Is(err, fs.ErrPermission) { // the system syncs nothing that it opened for reading
		return nil
	}
	return err
}

// OpenSegments opens the segments of a session. The caller closes them. The error
// names a segment that is missing or damaged.
func (s *Store) OpenSegments(m *Manifest) (spans []Span, err error) {
	defer func() {
		if err != nil {
			err, spans = errors.Join(err, Close(spans)), nil
		}
	}()
	at := 0
	for i, name := range m.names() {
		f, err := s.acquire(name)
		if errors.Is(err, fs.ErrNotExist) {
			return spans, fmt.Errorf("%w: tokens %d to %d of the session: %w", ErrMissing, at, at+m.Segments[i].Pages*m.PageTokens-1, err)
		}
		if err != nil {
			return spans, err
		}
		spans = append(spans, Span{f, f.Pages()})
		at += len(f.tokens)
	}
	return spans, nil
}

// SessionNames returns the names of all sessions, sorted.
func (d *Dir) SessionNames() (names []string, err error) {
	files, err := d.fsys.ReadDir(d.sessionsPath())
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

// pinned returns the segments that sessions need, except those of one session. A
// damaged session cannot be opened and pins nothing. A session that cannot be read
// may pin any segment, so it is an error.
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

// VerifySession reads all segments of a session and verifies every byte. It returns
// the number of bytes read.
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
		state, err := d.verifyState(m.Segments[i].ID)
		if bytes += state; err != nil {
			return bytes, err
		}
	}
	return bytes, nil
}

// SessionBytes returns the size of a session's segments and of the states behind them, including shared ones.
func (d *Dir) SessionBytes(m *Manifest) (bytes int64) {
	for i, name := range m.names() {
		for _, path := range []string{d.path(name), d.statePath(m.Segments[i].ID)} {
			if info, err := d.fsys.Stat(path); err == nil {
				bytes += info.Size
			}
		}
	}
	return bytes
}
