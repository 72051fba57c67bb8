package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	manifestMagic = "LLMRSESS"
	// manifestFixed is the shortest manifest: magic, version, length and sum.
	manifestFixed = 8 + 4 + 8 + checksumBytes
	// legacyVersion is an older version of sessions whose text is read, but not their
	// chunks, which had other checksums.
	legacyVersion = 1
	// maxManifest bounds a session's file: tokens take four bytes each.
	maxManifest = 64 << 20
)

// Manifest is a session as it is kept: its text, and which chunks hold what the
// model remembers of it.
type Manifest struct {
	Model    string // name of the model, for people
	Settings string // how it computes, for people
	Identity ID     // of the model: another one has other tokens
	Key      ID     // of the model with its settings; that of the Store of the chunks
	Created  time.Time
	Saved    time.Time
	Tokens   []int32
	Messages []Message

	PageTokens int
	Segments   []Ref // from the first token on, each behind the one before
}

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// Ref names a chunk that a session needs.
type Ref struct {
	ID    ID
	Pages int // that the chunk has
}

// SavedTokens returns how many of the session's tokens lie in chunks.
func (m *Manifest) SavedTokens() int {
	n := 0
	for _, r := range m.Segments {
		n += r.Pages * m.PageTokens
	}
	return n
}

// names returns the names of the session's chunks. The manifest is sound.
func (m *Manifest) names() (names []string) {
	parent, at := m.Key, 0
	for _, r := range m.Segments {
		names = append(names, segmentName(parent, m.Tokens[at:at+m.PageTokens], r.ID))
		parent, at = r.ID, at+r.Pages*m.PageTokens
	}
	return names
}

// encode returns the session's file.
func (m *Manifest) encode() []byte {
	b := append([]byte(nil), manifestMagic...)
	b = binary.LittleEndian.AppendUint32(b, Version)
	b = append(b, make([]byte, 8)...) // the length
	text := func(s string) {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	text(m.Model)
	text(m.Settings)
	b = append(b, m.Identity[:]...)
	b = append(b, m.Key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(max(0, m.Created.UnixMilli())))
	b = binary.LittleEndian.AppendUint64(b, uint64(max(0, m.Saved.UnixMilli())))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Tokens)))
	b = appendTokens(b, m.Tokens)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Messages)))
	for _, msg := range m.Messages {
		text(msg.Role)
		text(msg.Content)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(m.PageTokens))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Segments)))
	for _, r := range m.Segments {
		b = append(b, r.ID[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Pages))
	}
	binary.LittleEndian.PutUint64(b[12:], uint64(len(b)+checksumBytes))
	return binary.LittleEndian.AppendUint64(b, store.Sum64(checksumSeed, b))
}

// decodeManifest reads a session's file.
func decodeManifest(path string, b []byte) (*Manifest, error) {
	refuse := refuser(path)
	if len(b) < manifestFixed {
		return nil, refuse(int64(len(b)), "length", store.ErrTruncated, "the file has %d bytes, no session has less than %d", len(b), manifestFixed)
	}
	if string(b[:8]) != manifestMagic {
		return nil, refuse(0, "magic", store.ErrFormat, "%q is not %q", b[:8], manifestMagic)
	}
	version := binary.LittleEndian.Uint32(b[8:])
	if version != Version && version != legacyVersion {
		return nil, unknownVersion(path, version)
	}
	if n := binary.LittleEndian.Uint64(b[12:]); n != uint64(len(b)) {
		return nil, refuse(12, "length", store.ErrTruncated, "the file was written with %d bytes and has %d", n, len(b))
	}
	end := len(b) - checksumBytes
	if binary.LittleEndian.Uint64(b[end:]) != store.Sum64(checksumSeed, b[:end]) {
		return nil, refuse(int64(end), "checksum", store.ErrFormat, "the bytes do not have it: the file is damaged")
	}
	c := &cursor{path: path, all: b[:end], at: 20}
	m := &Manifest{Model: c.readString("model"), Settings: c.readString("settings")}
	copy(m.Identity[:], c.take("identity", len(m.Identity)))
	copy(m.Key[:], c.take("key", len(m.Key)))
	m.Created, m.Saved = c.time("created"), c.time("saved")
	m.Tokens = make([]int32, c.count("tokens", 4))
	for i := range m.Tokens {
		m.Tokens[i] = int32(c.uint32("tokens"))
	}
	m.Messages = make([]Message, c.count("messages", 8))
	for i := range m.Messages {
		m.Messages[i] = Message{c.readString("role"), c.readString("content")}
	}
	m.PageTokens = int(c.uint32("tokens of a page"))
	if c.err == nil && (m.PageTokens < 1 || m.PageTokens > maxPageTokens) {
		c.fail("tokens of a page", "%d is not from 1 to %d", m.PageTokens, maxPageTokens)
	}
	m.Segments = make([]Ref, c.count("chunks", 20))
	for i := range m.Segments {
		copy(m.Segments[i].ID[:], c.take("chunk", 16))
		m.Segments[i].Pages = int(c.uint32("pages"))
		if p := m.Segments[i].Pages; c.err == nil && (p < 1 || p > MaxPages) {
			c.fail("pages", "%d is not from 1 to %d", p, MaxPages)
		}
	}
	if c.err == nil && c.at != end {
		c.fail("chunks", "%d bytes follow the last", end-c.at)
	}
	if c.err == nil && m.SavedTokens() > len(m.Tokens) {
		c.fail("chunks", "they hold %d tokens of a text of %d", m.SavedTokens(), len(m.Tokens))
	}
	if c.err == nil {
		c.checkChain(m)
	}
	if c.err != nil {
		return nil, c.err
	}
	if version == legacyVersion { // nobody reads its chunks: they may go as others do
		m.Settings += fmt.Sprintf(", of version %d", version)
		m.Segments = nil
	}
	return m, nil
}

// unknownVersion refuses a session that another program has written.
func unknownVersion(path string, version uint32) error {
	_, file := vfs.Split(path)
	return &store.FormatError{
		Path: path, Off: 8, Field: "version", Reason: fmt.Sprintf("%d is unknown, %d is read", version, Version),
		Hint: "another llmrun wrote it: use that one, or llmrun sessions rm " + strings.TrimSuffix(file, sessionSuffix), Kind: store.ErrUnsupported,
	}
}

// checkChain compares the chunks' IDs with the tokens that they stand for.
func (c *cursor) checkChain(m *Manifest) {
	parent, at := m.Key, 0
	for i, r := range m.Segments {
		next := at + r.Pages*m.PageTokens
		if Next(parent, m.Tokens[at:next]) != r.ID {
			c.fail("chunks", "chunk %d, %v, is not one of tokens %d to %d", i, r.ID, at, next-1)
			return
		}
		parent, at = r.ID, next
	}
}

// cursor walks through the bytes of a manifest. The first failure sticks: later
// calls return zeros.
type cursor struct {
	path string
	all  []byte
	at   int
	err  error
}

func (c *cursor) fail(field, reason string, args ...any) {
	if c.err == nil {
		c.err = refuser(c.path)(int64(c.at), field, store.ErrFormat, reason, args...)
	}
}

// take returns the next n bytes, or nil.
func (c *cursor) take(field string, n int) []byte {
	if c.err == nil && n > len(c.all)-c.at {
		c.err = refuser(c.path)(int64(c.at), field, store.ErrTruncated, "needs %d bytes, %d are left", n, len(c.all)-c.at)
	}
	if c.err != nil {
		return nil
	}
	c.at += n
	return c.all[c.at-n : c.at]
}

func (c *cursor) uint32(field string) uint32 {
	if b := c.take(field, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// count reads how many entries follow, each of at least least bytes.
func (c *cursor) count(field string, least int) int {
	n := int64(c.uint32(field))
	if left := int64(len(c.all) - c.at); c.err == nil && n > left/int64(least) {
		c.fail(field, "%d do not fit into the %d bytes that are left", n, left)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

func (c *cursor) readString(field string) string { return string(c.take(field, c.count(field, 1))) }

// time reads milliseconds since 1970.
func (c *cursor) time(field string) time.Time {
	b := c.take(field, 8)
	if b == nil {
		return time.Time{}
	}
	ms := binary.LittleEndian.Uint64(b)
	if ms > math.MaxInt64/1_000_000 {
		c.fail(field, "%d is no time", ms)
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}
