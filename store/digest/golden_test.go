package digest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

var update = flag.Bool("update", false, "write the golden file anew")

// goldenEntries are the entries of the golden memo.
func goldenEntries() map[vfs.Stamp]entry {
	return map[vfs.Stamp]entry{
		{Size: 1, Modified: 2, Changed: 3, Device: 4, Inode: 5}: {sum: Sum{1, 2, 3}, at: 20},
		{Size: 9, Modified: 8, Changed: 7, Device: 6, Inode: 1}: {sum: Sum{31: 7}, at: 10},
	}
}

// TestGolden opens a memo that an earlier program of this version wrote, and writes it again.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "version1.hashes")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, encode(goldenEntries()), 0o644))
	}
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, goldenEntries(), decode(data))
	require.Equal(t, data, encode(goldenEntries()))
	for i := range data {
		data[i] ^= 0x20
		require.Nil(t, decode(data), "the change of byte %d was not detected", i)
		data[i] ^= 0x20
	}
}

// FuzzMemo decodes any bytes: without a panic, and what is accepted is written the same again.
func FuzzMemo(f *testing.F) {
	f.Add(encode(goldenEntries()))
	f.Add(encode(nil))
	f.Add([]byte(memoMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		known := decode(data)
		if again := decode(encode(known)); len(known) > 0 {
			require.Equal(t, known, again)
		}
	})
}
