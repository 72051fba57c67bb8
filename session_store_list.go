package llmrun

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/vfs"
)

// SavedSession describes a session that was kept, see [Session.Save].
type SavedSession struct {
	Name        string    `json:"name"`
	Model       string    `json:"model,omitempty"`
	Settings    string    `json:"settings,omitempty"`
	Tokens      int       `json:"tokens"`
	SavedTokens int       `json:"kept_tokens"` // whose keys and values are there; the rest is read again
	Bytes       int64     `json:"bytes"`       // of keys and values; other sessions may share them
	Created     time.Time `json:"created,omitzero"`
	Saved       time.Time `json:"saved,omitzero"`
	Messages    []Message `json:"messages,omitempty"`
	IDs         []int32   `json:"ids,omitempty"` // its text; only of ShowSession
	// Damage says why the session cannot be opened; the rest is empty then.
	Damage string `json:"damage,omitempty"`
}

// Sessions lists the sessions in a directory that was given as Options.CacheDir or
// KVDir, by name.
func Sessions(dir string) ([]SavedSession, error) {
	d, err := segment.OpenDir(vfs.OS(), dir, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.SessionNames()
	var list []SavedSession
	for _, name := range names {
		s, err := describeSession(d, name)
		if err != nil {
			s.Damage = err.Error()
		}
		s.IDs, s.Messages = nil, nil
		list = append(list, s)
	}
	return list, err
}

// ShowSession describes one session with its text.
func ShowSession(dir, name string) (SavedSession, error) {
	d, err := segment.OpenDir(vfs.OS(), dir, 0)
	if err != nil {
		return SavedSession{}, err
	}
	defer d.Close()
	s, err := describeSession(d, name)
	return s, wrapName(err)
}

func describeSession(d *segment.Dir, name string) (SavedSession, error) {
	s := SavedSession{Name: name}
	m, err := d.Session(name)
	if err != nil {
		return s, err
	}
	s.Model, s.Settings, s.Tokens, s.SavedTokens = m.Model, m.Settings, len(m.Tokens), m.SavedTokens()
	s.Bytes, s.Created, s.Saved, s.IDs = d.SessionBytes(m), m.Created, m.Saved, m.Tokens
	for _, msg := range m.Messages {
		s.Messages = append(s.Messages, Message(msg))
	}
	return s, nil
}

// RemoveSession deletes a session, and those of its keys and values that no other
// session needs. It returns how many bytes of these are gone. A session that is in
// use is refused with ErrLocked.
func RemoveSession(dir, name string) (freed int64, err error) {
	d, err := segment.OpenDir(vfs.OS(), dir, 0)
	if err != nil {
		return 0, err
	}
	freed, err = d.RemoveSession(name)
	return freed, errors.Join(wrapName(err), d.Close())
}

// VerifySession reads all that was kept of a session and compares every byte with
// its checksum. The error names the first place that is damaged. It returns how
// many bytes were read.
func VerifySession(dir, name string) (bytes int64, err error) {
	d, err := segment.OpenDir(vfs.OS(), dir, 0)
	if err != nil {
		return 0, err
	}
	bytes, err = d.VerifySession(name)
	return bytes, errors.Join(wrapName(err), d.Close())
}

// SavedKV says how much of a cache is keys and values.
type SavedKV struct {
	Files        int   `json:"files"`
	Bytes        int64 `json:"bytes"`
	SessionBytes int64 `json:"session_bytes"` // of these, what sessions with a name need
}

// CachedKV returns how many keys and values there are in a directory that was
// given as Options.CacheDir or KVDir.
func CachedKV(dir string) (k SavedKV, err error) {
	d, err := segment.OpenDir(vfs.OS(), dir, 0)
	if err != nil {
		return k, err
	}
	list, err := d.List()
	for _, c := range list {
		k.Files, k.Bytes = k.Files+1, k.Bytes+c.Bytes
		if c.Pinned {
			k.SessionBytes += c.Bytes
		}
	}
	return k, errors.Join(err, d.Close())
}

// CleanCachedKV deletes keys and values that no session with a name needs.
func CleanCachedKV(dir string) (deleted SavedKV, err error) {
	d, err := segment.OpenDir(vfs.OS(), dir, 0)
	if err != nil {
		return deleted, err
	}
	deleted.Files, deleted.Bytes, err = d.Clean()
	return deleted, errors.Join(err, d.Close())
}

// packLimit returns how much of a cache of size bytes packs may take: what keys
// and values leave, which may take a quarter.
func packLimit(dir string, size int64) int64 {
	if size == 0 {
		return 0
	}
	kept, err := CachedKV(dir)
	if err != nil {
		return size - kvLimit(size) // the error shows when somebody needs them
	}
	return max(1, size-min(kept.Bytes, kvLimit(size)))
}
