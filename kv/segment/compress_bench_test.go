package segment

import (
	"os"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/store/vfs"
)

// BenchmarkSession encodes and decodes a session of 20000 tokens.
func BenchmarkSession(b *testing.B) {
	m := conversation(20000)
	for _, c := range []struct {
		name   string
		encode func() []byte
	}{{"lz4", m.encode}, {"plain", func() []byte { return plain(m) }}} {
		data := c.encode()
		b.Run("encode/"+c.name, func(b *testing.B) {
			for range b.N {
				c.encode()
			}
			b.ReportMetric(float64(len(data)), "bytes")
		})
		b.Run("decode/"+c.name, func(b *testing.B) {
			for range b.N {
				_, err := decodeManifest("x", data)
				require.NoError(b, err)
			}
		})
	}
}

// BenchmarkCompressSaved reports how much of each saved session, and of each segment's pages,
// remains after LZ4, in percent, for the cache directory in LLMRUN_SAVED. Pages are compressed as
// they are and with the bytes of the elements split into planes, which is how floats compress
// best. ns/op is the time to decompress.
func BenchmarkCompressSaved(b *testing.B) {
	base := os.Getenv("LLMRUN_SAVED")
	if base == "" {
		b.Skip("LLMRUN_SAVED names no cache directory")
	}
	d, err := OpenDir(vfs.OS(), base, 0)
	require.NoError(b, err)
	names, err := d.SessionNames()
	require.NoError(b, err)
	for _, name := range names {
		m, err := d.Session(name)
		require.NoError(b, err)
		b.Run("session/"+name, func(b *testing.B) { reportLZ4(b, [][]byte{plain(m)}) })
	}
	list, err := d.List()
	require.NoError(b, err)
	for i, info := range list {
		f, err := d.acquire(info.Name, info.ID)
		require.NoError(b, err)
		for _, width := range []int{1, 2, 4} {
			var pages [][]byte
			for l, n := range f.layout.PageBytes {
				data := make([]byte, n*f.pages)
				require.NoError(b, f.ReadLayer(l, f.pages, data))
				for p := range f.pages {
					pages = append(pages, planes(data[p*n:(p+1)*n], width))
				}
			}
			b.Run("segment/"+string(rune('a'+i%26))+"/planes="+string(rune('0'+width)), func(b *testing.B) { reportLZ4(b, pages) })
		}
		require.NoError(b, f.Close())
	}
}

// planes splits the bytes of elements of a width: all first bytes, all second bytes, and so on.
func planes(data []byte, width int) []byte {
	out := make([]byte, len(data))
	n := len(data) / width
	for i := range n * width {
		out[i%width*n+i/width] = data[i]
	}
	return out
}

// reportLZ4 compresses each block and reports the ratio, and the time to decompress all.
func reportLZ4(b *testing.B, blocks [][]byte) {
	var before, after int
	var packed [][]byte
	for _, data := range blocks {
		block := make([]byte, lz4.CompressBlockBound(len(data)))
		n, err := lz4.CompressBlock(data, block, nil)
		require.NoError(b, err)
		if n == 0 || n >= len(data) {
			n, block = len(data), nil
		} else {
			block = block[:n]
		}
		packed = append(packed, block)
		before, after = before+len(data), after+n
	}
	out := make([]byte, len(blocks[0]))
	b.SetBytes(int64(before))
	for range b.N {
		for i, block := range packed {
			if block != nil {
				_, err := lz4.UncompressBlock(block, out[:len(blocks[i])])
				require.NoError(b, err)
			}
		}
	}
	b.ReportMetric(100*float64(after)/float64(before), "%")
}
