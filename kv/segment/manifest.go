package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

const (
	manifestMagic = "LLMRSESS"
	// manifestFixed is the size of the shortest manifest: magic, version, length and
	// checksum.
	manifestFixed = 8 + 4 + 8 + checksumBytes
	// manifestHead is the size of what precedes the content: magic, version and length.
	manifestHead = 8 + 4 + 8
	// adaptersVersion is the version of sessions with adapters, which follow behind the segments.
	adaptersVersion = 4
	// detailsVersion is the version of sessions whose messages have details, which follow behind the adapters.
	detailsVersion = 5
	// formerVersion is the version of sessions that began otherwise before, which follows behind the details.
	formerVersion = 6
	// ManifestVersion is the version of other sessions that this program writes. Before, in
	// plainVersion, the content was not compressed. In legacyVersion it was not either; the tokens
	// and messages of these sessions can be read, but not their segments, which used other
	// checksums.
	ManifestVersion = 3
	plainVersion    = 2
	legacyVersion   = 1
	// maxManifest limits the size of a session, which has four bytes for each token.
	maxManifest = 64 << 20
)

// Manifest is a saved session: its tokens and messages, and the segments that hold
// the KV of the tokens.
type Manifest struct {
	Model    string // name of the model, for display
	Settings string // settings of the model, for display
	Identity ID     // identity of the model, which defines the meaning of tokens
	Key      ID     // key of the Store of the segments
	Created  time.Time
	Saved    time.Time
	Tokens   []int32
	Messages []Message
	// Details are, for each message, the JSON of what it has besides its role and content, "" for nothing; nil if no message has any.
	Details []string

	PageTokens int
	Segments   []Ref    // consecutive, from the first token on
	Adapters   []string // of the session; the engine that wrote them defines their meaning
	// Former are the beginnings that the session had before, for example under another system message:
	// [Dir.RemoveSession] deletes what is left of them. [SessionLock.Save] maintains it.
	Former []Beginning
}

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// Ref names a segment that a session needs.
type Ref struct {
	ID    ID
	Pages int // pages of the segment
}

// SavedTokens returns the number of tokens whose KV is in segments.
func (m *Manifest) SavedTokens() int {
	n := 0
	for _, r := range m.Segments {
		n += r.Pages * m.PageTokens
	}
	return n
}

// names returns the file names of the session's segments. The manifest must be valid.
func (m *Manifest) names() (names []string) {
	parent, at := m.Key, 0
	for _, r := range m.Segments {
		names = append(names, segmentName(parent, m.Tokens[at:at+m.PageTokens], r.ID))
		parent, at = r.ID, at+r.Pages*m.PageTokens
	}
	return names
}

// encode returns the bytes of the session file.
func (m *Manifest) encode() []byte {
	version := uint32(ManifestVersion)
	if len(m.Adapters) > 0 {
		version = adaptersVersion
	}
	if m.Details != nil {
		version = detailsVersion
	}
	if len(m.Former) > 0 {
		version = formerVersion
	}
	b := compress(manifestHeader(version), m.content())
	return endManifest(b)
}

// manifestHeader returns the bytes before the content, with room for the length.
func manifestHeader(version uint32) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(manifestMagic), version)
	return append(b, make([]byte, 8)...)
}

// endManifest sets the length and appends the checksum.
func endManifest(b []byte) []byte {
	binary.LittleEndian.PutUint64(b[12:], uint64(len(b)+checksumBytes))
	return binary.LittleEndian.AppendUint64(b, store.Sum64(checksumSeed, b))
}

// content returns the fields of the session.
func (m *Manifest) content() (b []byte) {
	str := func(s string) {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	str(m.Model)
	str(m.Settings)
	b = append(b, m.Identity[:]...)
	b = append(b, m.Key[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(max(0, m.Created.UnixMilli())))
	b = binary.LittleEndian.AppendUint64(b, uint64(max(0, m.Saved.UnixMilli())))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Tokens)))
	b = appendTokens(b, m.Tokens)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Messages)))
	for _, msg := range m.Messages {
		str(msg.Role)
		str(msg.Content)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(m.PageTokens))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Segments)))
	for _, r := range m.Segments {
		b = append(b, r.ID[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Pages))
	}
	if len(m.Adapters) > 0 || m.Details != nil || len(m.Former) > 0 {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Adapters)))
	}
	for _, a := range m.Adapters {
		str(a)
	}
	for _, d := range m.Details {
		str(d)
	}
	if len(m.Former) > 0 {
		if m.Details == nil {
			b = append(b, make([]byte, 4*len(m.Messages))...) // empty strings
		}
		b = appendBeginnings(b, m.Former)
	}
	return b
}

// decodeManifest decodes a session file.
func decodeManifest(path string, b []byte) (*Manifest, error) {
	refuse := refuser(path)
	if len(b) < manifestFixed {
		return nil, refuse(int64(len(b)), "length", store.ErrTruncated, "the file has %d bytes, a session has at least %d", len(b), manifestFixed)
	}
	if string(b[:8]) != manifestMagic {
		return nil, refuse(0, "magic", store.ErrFormat, "%q is not %q", b[:8], manifestMagic)
	}
	version := binary.LittleEndian.Uint32(b[8:])
	if version < legacyVersion || version > formerVersion {
		return nil, unknownVersion(path, version)
	}
	if n := binary.LittleEndian.Uint64(b[12:]); n != uint64(len(b)) {
		return nil, refuse(12, "length", store.ErrTruncated, "the file has %[2]d bytes instead of %[1]d", n, len(b))
	}
	end := len(b) - checksumBytes
	if binary.LittleEndian.Uint64(b[end:]) != store.Sum64(checksumSeed, b[:end]) {
		return nil, refuse(int64(end), "checksum", store.ErrFormat, "the checksum does not match: the file is damaged")
	}
	b = b[:end]
	if version >= ManifestVersion {
		var err error
		if b, err = decompress(path, b, manifestHead); err != nil {
			return nil, err
		}
	}
	return decodeContent(path, b, version)
}

// decodeContent decodes the fields of a session. Offsets in its errors are those in the content
// that follows the first bytes of the file, decompressed.
func decodeContent(path string, b []byte, version uint32) (*Manifest, error) {
	c := &cursor{path: path, all: b, at: manifestHead}
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
	m.Segments = make([]Ref, c.count("segments", 20))
	for i := range m.Segments {
		copy(m.Segments[i].ID[:], c.take("segment", 16))
		m.Segments[i].Pages = int(c.uint32("pages"))
		if p := m.Segments[i].Pages; c.err == nil && (p < 1 || p > MaxPages) {
			c.fail("pages", "%d is not from 1 to %d", p, MaxPages)
		}
	}
	if version >= adaptersVersion {
		m.Adapters = make([]string, c.count("adapters", 4))
		for i := range m.Adapters {
			m.Adapters[i] = c.readString("adapter")
		}
	}
	if version >= detailsVersion {
		m.Details = make([]string, len(m.Messages)) // as many were read
		for i := range m.Details {
			m.Details[i] = c.readString("details")
		}
	}
	if version >= formerVersion {
		m.Former = c.beginnings()
		if !slices.ContainsFunc(m.Details, func(d string) bool { return d != "" }) {
			m.Details = nil
		}
	}
	if c.err == nil && c.at != len(b) {
		c.fail("segments", "%d bytes follow the last field", len(b)-c.at)
	}
	if c.err == nil && m.SavedTokens() > len(m.Tokens) {
		c.fail("segments", "they hold %d tokens, the session has %d", m.SavedTokens(), len(m.Tokens))
	}
	if c.err == nil {
		c.checkChain(m)
	}
	if c.err != nil {
		return nil, c.err
	}
	if version == legacyVersion { // its segments cannot be read: leave them to eviction
		m.Settings += fmt.Sprintf(", of version %d", version)
		m.Segments = nil
	}
	return m, nil
}

// unknownVersion returns the error for a session of an unknown version.
func unknownVersion(path string, version uint32) error {
	_, file := vfs.Split(path)
	return &store.FormatError{
		Path: path, Off: 8, Field: "version", Reason: fmt.Sprintf("%d is unknown, this program reads up to %d", version, formerVersion),
		Hint: "use the llmrun version that wrote it, or run llmrun sessions rm " + strings.TrimSuffix(file, sessionSuffix), Kind: store.ErrUnsupported,
	}
}

// checkChain checks that the IDs of the segments follow from the key and the tokens.
func (c *cursor) checkChain(m *Manifest) {
	parent, at := m.Key, 0
	for i, r := range m.Segments {
		next := at + r.Pages*m.PageTokens
		if Next(parent, m.Tokens[at:next]) != r.ID {
			c.fail("segments", "segment %d: ID %v does not match tokens %d to %d", i, r.ID, at, next-1)
			return
		}
		parent, at = r.ID, next
	}
}

// cursor decodes the fields of a manifest in order. After the first error, all calls
// return zeros.
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

// take returns the next n bytes, nil after an error.
func (c *cursor) take(field string, n int) []byte {
	if c.err == nil && n > len(c.all)-c.at {
		c.err = refuser(c.path)(int64(c.at), field, store.ErrTruncated, "needs %d bytes, %d remain", n, len(c.all)-c.at)
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

// count reads a number of entries and rejects a number that the rest of the manifest
// cannot hold. least is the minimum size of an entry in bytes.
func (c *cursor) count(field string, least int) int {
	n := int64(c.uint32(field))
	if left := int64(len(c.all) - c.at); c.err == nil && n > left/int64(least) {
		c.fail(field, "%d entries do not fit into the remaining %d bytes", n, left)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

func (c *cursor) readString(field string) string { return string(c.take(field, c.count(field, 1))) }

// time reads a time in milliseconds since 1970.
func (c *cursor) time(field string) time.Time {
	b := c.take(field, 8)
	if b == nil {
		return time.Time{}
	}
	ms := binary.LittleEndian.Uint64(b)
	if ms > math.MaxInt64/1_000_000 {
		c.fail(field, "%d milliseconds is not a valid time", ms)
		return time.Time{}
	}
	return time.UnixMilli(int64(ms)).UTC()
}
