package crc

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func randomBytes(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

// TestUpdateIsCRC32C compares with the standard: other programs that read the files compute
// it too.
func TestUpdateIsCRC32C(t *testing.T) {
	require.EqualValues(t, 0xe3069283, Update(0, []byte("123456789")), "the test vector of the standard")
	require.NotZero(t, Update(0, make([]byte, 64<<10)))
	data := randomBytes(5*prefetchBytes + 7)
	for _, n := range []int{0, 1, prefetchBytes - 1, prefetchBytes, prefetchBytes + 1, 2 * prefetchBytes, len(data)} {
		want := crc32.Checksum(data[:n], crc32.MakeTable(crc32.Castagnoli))
		require.Equal(t, want, Update(0, data[:n]), n)
		require.Equal(t, want, Update(Update(0, data[:n/3]), data[n/3:n]), "in two calls, %d", n)
	}
}

// TestFoldMatchesPortable compares the assembly path with the portable one, for lengths
// around a few iterations and for every alignment.
func TestFoldMatchesPortable(t *testing.T) {
	data := randomBytes(4*foldBytes + 128)
	for iterations := range 4 {
		for extra := range 64 {
			n := iterations*foldBytes + extra
			for _, n := range []int{n, max(0, n-64)} {
				require.Equal(t, update(7, data[extra:][:n]), Update(7, data[extra:][:n]), n)
			}
		}
	}
}

func TestCombineMatchesUpdate(t *testing.T) {
	data := randomBytes(40 * 77)
	for _, size := range []int{1, 77, 4 * 77} {
		c := NewCombiner(size)
		var blocks []uint32
		for at := 0; at < len(data); at += size {
			blocks = append(blocks, Update(0, data[at:at+size]))
		}
		require.Equal(t, Update(0, data), c.Combine(blocks), size)
		require.Equal(t, Update(0, data[:size]), c.Combine(blocks[:1]), size)
	}
	require.Zero(t, NewCombiner(8).Combine(nil))
}

func BenchmarkUpdate(b *testing.B) {
	const block = 64 << 10
	data := make([]byte, 256<<20) // more than a core's caches hold
	b.SetBytes(block)
	for i := 0; b.Loop(); i++ {
		Update(0, data[i*block%len(data):][:block])
	}
}
