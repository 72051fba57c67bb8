package crc

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Other programs that read our files compute the sum as the standard says.
func TestUpdateIsCRC32C(t *testing.T) {
	require.EqualValues(t, 0xe3069283, Update(0, []byte("123456789")), "the standard's own example")
	require.NotZero(t, Update(0, make([]byte, 64<<10)))
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 5*step+7)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	for _, n := range []int{0, 1, step - 1, step, step + 1, 2 * step, len(data)} {
		want := crc32.Checksum(data[:n], crc32.MakeTable(crc32.Castagnoli))
		require.Equal(t, want, Update(0, data[:n]), n)
		require.Equal(t, want, Update(Update(0, data[:n/3]), data[n/3:n]), "in two pieces, %d", n)
	}
}

func BenchmarkUpdate(b *testing.B) {
	const block = 64 << 10
	data := make([]byte, 256<<20) // more than a core's caches hold
	b.SetBytes(block)
	for i := 0; b.Loop(); i++ {
		Update(0, data[i*block%len(data):][:block])
	}
}
