package llmrun

import (
	"errors"
	"time"

	"github.com/llmrun/llmrun/kv/segment"
)

// SavedSession describes a saved session; see [Session.Save].
type SavedSession struct {
	Name        string    `json:"name"`
	Model       string    `json:"model,omitempty"`
	Settings    string    `json:"settings,omitempty"`
	Tokens      int       `json:"tokens"`
	SavedTokens int       `json:"kept_tokens"` // tokens with saved keys and values; the rest is re-prefilled
	Bytes       int64     `json:"bytes"`       // size of the keys and values, which other sessions may share
	Created     time.Time `json:"created,omitzero"`
	Saved       time.Time `json:"saved,omitzero"`
	Messages    []Message `json:"messages,omitempty"`
	IDs         []int32   `json:"ids,omitempty"` // the session's tokens; only set by ShowSession
	// Damage is the reason why the session cannot be opened; the other fields are then empty.
	Damage string `json:"damage,omitempty"`
}

// Sessions lists the saved sessions of a directory (see [CacheOptions].KVDir), ordered by
// name.
func Sessions(dir string) ([]SavedSession, error) { return SessionDir{Path: dir}.Sessions() }

// Sessions lists the saved sessions, ordered by name.
func (at SessionDir) Sessions() ([]SavedSession, error) {
	d, err := at.open()
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

// ShowSession describes one session, including its tokens and messages.
func ShowSession(dir, name string) (SavedSession, error) { return SessionDir{Path: dir}.Show(name) }

// Show describes one session, including its tokens and messages.
func (at SessionDir) Show(name string) (SavedSession, error) {
	d, err := at.open()
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
	s.Messages, err = savedMessages(m)
	return s, err
}

// RemoveSession deletes a session, and those of its keys and values that no other session
// uses. It returns the size of the deleted keys and values, or ErrLocked if the session is in
// use.
func RemoveSession(dir, name string) (freed int64, err error) {
	return SessionDir{Path: dir}.Remove(name)
}

// Remove is [RemoveSession] for the directory.
func (at SessionDir) Remove(name string) (freed int64, err error) {
	d, err := at.open()
	if err != nil {
		return 0, err
	}
	freed, err = d.RemoveSession(name)
	return freed, errors.Join(wrapName(err), d.Close())
}

// VerifySession reads a saved session and compares all checksums. The error names the first
// damaged place. It returns the number of bytes read.
func VerifySession(dir, name string) (bytes int64, err error) {
	return SessionDir{Path: dir}.Verify(name)
}

// Verify is [VerifySession] for the directory.
func (at SessionDir) Verify(name string) (bytes int64, err error) {
	d, err := at.open()
	if err != nil {
		return 0, err
	}
	bytes, err = d.VerifySession(name)
	return bytes, errors.Join(wrapName(err), d.Close())
}

// SavedKV is the number and size of saved keys and values.
type SavedKV struct {
	Files        int   `json:"files"`
	Bytes        int64 `json:"bytes"`
	SessionBytes int64 `json:"session_bytes"` // those of named sessions
}

// CachedKV returns the size of the keys and values in a directory (see [CacheOptions].KVDir).
func CachedKV(dir string) (k SavedKV, err error) { return SessionDir{Path: dir}.KV() }

// KV returns the size of the keys and values in the directory.
func (at SessionDir) KV() (k SavedKV, err error) {
	d, err := at.open()
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

// CleanCachedKV deletes the keys and values that no named session uses.
func CleanCachedKV(dir string) (deleted SavedKV, err error) { return SessionDir{Path: dir}.Clean() }

// Clean deletes the keys and values that no named session uses.
func (at SessionDir) Clean() (deleted SavedKV, err error) {
	d, err := at.open()
	if err != nil {
		return deleted, err
	}
	deleted.Files, deleted.Bytes, err = d.Clean()
	return deleted, errors.Join(err, d.Close())
}

// Expired is what ExpireCache deleted.
type Expired struct {
	Packs    []CachedPack
	Sessions int
	KV       SavedKV // keys and values; Bytes includes those of the deleted sessions
}

// ExpireCache deletes from a cache directory what was last used before a time: packs, cached
// prefixes, and named sessions that are not in use, by the time of their last save.
func ExpireCache(dir string, before time.Time) (e Expired, err error) {
	return SessionDir{Path: dir}.Expire(before)
}

// Expire is [ExpireCache] for the directory.
func (at SessionDir) Expire(before time.Time) (e Expired, err error) {
	packs, err := CachedPacks(at.Path)
	if err != nil {
		return e, err
	}
	for _, p := range packs {
		if !p.Used.Before(before) {
			continue
		}
		if failed := RemoveCachedPack(at.Path, p.Name); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		e.Packs = append(e.Packs, p)
	}
	d, failed := at.open()
	if failed != nil {
		return e, errors.Join(err, failed)
	}
	r, failed := d.Expire(before)
	e.Sessions, e.KV.Files, e.KV.Bytes = r.Sessions, r.Segments, r.Bytes
	return e, errors.Join(err, failed, d.Close())
}

// packLimit returns the limit for packs in a cache of size bytes: what keys and values leave,
// which may take a quarter.
func packLimit(at SessionDir, size int64) int64 {
	if size == 0 {
		return 0
	}
	saved, err := at.KV()
	if err != nil {
		return size - kvLimit(size) // the engine reports the error when it opens the store
	}
	return max(1, size-min(saved.Bytes, kvLimit(size)))
}
