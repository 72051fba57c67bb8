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

// Other programs that read our files compute the sum as the standard says.
func TestUpdateIsCRC32C(t *testing.T) {
	require.EqualValues(t, 0xe3069283, Update(0, []byte("123456789")), "the standard's own example")
	require.NotZero(t, Update(0, make([]byte, 64<<10)))
	data := randomBytes(5*prefetchBytes + 7)
	for _, n := range []int{0, 1, prefetchBytes - 1, prefetchBytes, prefetchBytes + 1, 2 * prefetchBytes, len(data)} {
		want := crc32.Checksum(data[:n], crc32.MakeTable(crc32.Castagnoli))
		require.Equal(t, want, Update(0, data[:n]), n)
		require.Equal(t, want, Update(Update(0, data[:n/3]), data[n/3:n]), "in two pieces, %d", n)
	}
}

// Where processors fold, what they do must be what the others do: for all lengths about
// some rounds, from any byte on.
func TestFoldingIsTheSame(t *testing.T) {
	data := randomBytes(4*foldBytes + 128)
	for rounds := range 4 {
		for more := range 64 {
			n := rounds*foldBytes + more
			for _, n := range []int{n, max(0, n-64)} {
				require.Equal(t, update(7, data[more:][:n]), Update(7, data[more:][:n]), n)
			}
		}
	}
}

func TestJointSumIsThatOfTheWhole(t *testing.T) {
	data := randomBytes(40 * 77)
	for _, size := range []int{1, 77, 4 * 77} {
		j := NewCombiner(size)
		var parts []uint32
		for at := 0; at < len(data); at += size {
			parts = append(parts, Update(0, data[at:at+size]))
		}
		require.Equal(t, Update(0, data), j.Combine(parts), size)
		require.Equal(t, Update(0, data[:size]), j.Combine(parts[:1]), size)
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
