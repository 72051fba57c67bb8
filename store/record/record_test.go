package record

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

var format = Format{Magic: "TESTTEST", Version: 1, Seed: 5, Limit: 1 << 16, Hint: "remove it"}

// TestContentsComeBack writes and reads contents that shrink, that do not, and that shrink very much.
func TestContentsComeBack(t *testing.T) {
	fsys, r := vfs.NewMem(), testutil.Random(t)
	noise := make([]byte, 5000)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	for _, content := range [][]byte{{}, {1}, noise, bytes.Repeat([]byte("again "), 9000), []byte(strings.Repeat("words of a text 1 2 3. ", 5) + string(noise[:300]))} {
		require.NoError(t, format.Write(fsys, "x", content))
		got, err := format.Read(fsys, "x")
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
	}
	require.ErrorContains(t, format.Write(fsys, "x", make([]byte, format.Limit+1)), "exceed the limit")
}

// TestEveryDamageIsFound changes each byte and cuts the file at each length.
func TestEveryDamageIsFound(t *testing.T) {
	var content []byte
	for i := range 40 {
		content = fmt.Appendf(content, "sentence %d of a text. ", i*i)
	}
	good := format.encode(content)
	require.Less(t, len(good), len(content))
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		_, err := format.decode("x", bad)
		var reason *store.FormatError
		require.ErrorAs(t, err, &reason, "byte %d", at)
		require.Equal(t, "remove it", reason.Hint)
		_, err = format.decode("x", good[:at])
		require.ErrorIs(t, err, store.ErrFormat, "%d bytes", at)
	}
}

// TestACrashLeavesOneVersion loses power at each write of a replacement: the file is the old one or the new one.
func TestACrashLeavesOneVersion(t *testing.T) {
	before, after := []byte("the old content"), []byte("the new content, which is longer")
	for fail := int64(0); ; fail++ {
		mem := vfs.NewMem()
		require.NoError(t, format.Write(mem, "x", before))
		var crashed *vfs.Mem
		faulty := vfs.NewFaulty(mem, func(op vfs.Op) error {
			if op.Index == fail {
				crashed = mem.CrashClone(0.5, uint64(fail))
			}
			return nil
		})
		require.NoError(t, format.Write(faulty, "x", after))
		if crashed == nil {
			require.Greater(t, fail, int64(3))
			return
		}
		got, err := format.Read(crashed, "x")
		require.NoError(t, err)
		require.Contains(t, []string{string(before), string(after)}, string(got))
	}
}
