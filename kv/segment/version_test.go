package segment

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// version1 returns a session that a program of version 1 wrote: 81 tokens, 64 of them
// in a segment.
func version1(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "version1.session"))
	require.NoError(t, err)
	return data
}

// TestSessionOfVersion1 checks that tokens and messages can be read and that no
// segments are listed.
func TestSessionOfVersion1(t *testing.T) {
	m, err := decodeManifest("x", version1(t))
	require.NoError(t, err)
	require.Len(t, m.Tokens, 81)
	require.Len(t, m.Messages, 2)
	require.Equal(t, "Tell me a story about a brave fox named Ruby.", m.Messages[0].Content)
	require.Equal(t, "kv k8v8, of version 1", m.Settings)
	require.Empty(t, m.Segments)

	for i := range version1(t) {
		b := version1(t)
		b[i] ^= 0x20
		_, err := decodeManifest("x", b)
		require.True(t, isRefusal(err), "byte %d: %v", i, err)
	}
}

// TestSessionsWithAdapters encodes sessions with adapters, which other sessions do not need a newer program for.
func TestSessionsWithAdapters(t *testing.T) {
	mem, _, name := saved(t)
	written, err := vfs.ReadFile(mem, name, 1<<20)
	require.NoError(t, err)
	m, err := decodeManifest("x", written)
	require.NoError(t, err)
	require.Equal(t, written, m.encode())
	m.Adapters = []string{"style:0.5", "facts"}
	b := m.encode()
	require.EqualValues(t, adaptersVersion, binary.LittleEndian.Uint32(b[8:]))
	again, err := decodeManifest("x", b)
	require.NoError(t, err)
	require.Equal(t, m, again)
	for _, adapters := range [][]string{m.Adapters, {}} { // beside details of messages
		m.Adapters, m.Details = adapters, make([]string, len(m.Messages))
		m.Details[1] = `{"thinking":"hm"}`
		b = m.encode()
		require.EqualValues(t, detailsVersion, binary.LittleEndian.Uint32(b[8:]))
		again, err = decodeManifest("x", b)
		require.NoError(t, err)
		require.Equal(t, m, again)
	}
}

// TestSessionsOfOtherVersions checks a directory with sessions of other versions: an
// old one pins no segments; one of an unknown version may pin any, so that Clean
// fails and names it.
func TestSessionsOfOtherVersions(t *testing.T) {
	mem, _, name := saved(t)
	s := openStore(t, mem, 0)
	require.NoError(t, vfs.WriteFile(mem, "cache/sessions/old.session", version1(t)))
	mustWrite(t, s, randomTokens(2, 16), 4)
	count, _, err := s.dir.Clean()
	require.NoError(t, err)
	require.Equal(t, 1, count)
	_, err = s.dir.VerifySession("old")
	require.NoError(t, err)

	change(t, mem, name, func(b []byte) []byte {
		b = bytes.Clone(b)
		binary.LittleEndian.PutUint32(b[8:], formerVersion+1)
		return resumManifest(b)
	})
	_, _, err = s.dir.Clean()
	require.ErrorIs(t, err, store.ErrUnsupported)
	require.ErrorContains(t, err, name)
	require.ErrorContains(t, err, "llmrun sessions rm talk")
	_, err = s.dir.RemoveSession("old")
	require.NoError(t, err, "an old session pins nothing")
	_, err = s.dir.RemoveSession("talk")
	require.NoError(t, err)
	_, _, err = s.dir.Clean()
	require.NoError(t, err)
}
