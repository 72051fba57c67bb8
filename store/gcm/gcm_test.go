package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// sealed is a text and what crypto/cipher makes of it.
type sealed struct {
	key         [KeyBytes]byte
	nonce       [NonceBytes]byte
	about       [AboutBytes]byte
	tag         [TagBytes]byte
	text, chars []byte // plain, encrypted
}

func fill(rng *rand.Rand, p []byte) {
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
}

// newSealed seals n random bytes with crypto/cipher.
func newSealed(tb testing.TB, rng *rand.Rand, n int) *sealed {
	s := &sealed{text: make([]byte, n)}
	for _, p := range [][]byte{s.key[:], s.nonce[:], s.about[:], s.text} {
		fill(rng, p)
	}
	block, err := aes.NewCipher(s.key[:])
	require.NoError(tb, err)
	aead, err := cipher.NewGCM(block)
	require.NoError(tb, err)
	out := aead.Seal(nil, s.nonce[:], s.text, s.about[:])
	s.chars = out[:n]
	copy(s.tag[:], out[n:])
	return s
}

// opener returns an Opener, or skips the test.
func (s *sealed) opener(tb testing.TB) *Opener {
	o := New(&s.key)
	if o == nil {
		tb.Skip("this processor has no fast path")
	}
	return o
}

// eachPath runs a test with each of the processor's paths.
func eachPath(t *testing.T, test func(t *testing.T)) {
	all := paths
	defer func() { paths = all }()
	for _, p := range all {
		paths = []path{p}
		t.Run(map[path]string{bits512: "512 bits", bits256: "256 bits", bits128: "128 bits"}[p], test)
	}
}

// TestOpensWhatTheTwinSeals compares with crypto/cipher, in place and beside, at several lengths.
func TestOpensWhatTheTwinSeals(t *testing.T) { eachPath(t, opensWhatTheTwinSeals) }

func opensWhatTheTwinSeals(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var scratch Scratch
	for n := GroupBytes; n <= MaxBytes; n += GroupBytes {
		s := newSealed(t, rng, n)
		o := s.opener(t)
		dst := make([]byte, n)
		require.True(t, o.Open(&scratch, dst, s.chars, &s.nonce, &s.about, &s.tag))
		require.Equal(t, s.text, dst)
		require.True(t, o.Open(&scratch, s.chars, s.chars, &s.nonce, &s.about, &s.tag))
		require.Equal(t, s.text, s.chars)
	}
}

// TestRefusesEveryChange flips each bit of the data, the nonce, the additional data and the tag.
func TestRefusesEveryChange(t *testing.T) { eachPath(t, refusesEveryChange) }

func refusesEveryChange(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	var scratch Scratch
	s := newSealed(t, rng, 2*GroupBytes)
	o := s.opener(t)
	dst := make([]byte, len(s.text))
	opens := func() bool { return o.Open(&scratch, dst, s.chars, &s.nonce, &s.about, &s.tag) }
	require.True(t, opens())
	for _, p := range [][]byte{s.chars, s.nonce[:], s.about[:], s.tag[:]} {
		for i := range 8 * len(p) {
			p[i/8] ^= 1 << (i % 8)
			require.False(t, opens(), "bit %d", i)
			p[i/8] ^= 1 << (i % 8)
		}
	}
	require.True(t, opens())
	require.False(t, o.Open(&scratch, dst[:GroupBytes], s.chars[:GroupBytes], &s.nonce, &s.about, &s.tag), "cut")
	require.False(t, o.Open(&scratch, nil, nil, &s.nonce, &s.about, &s.tag))
	require.False(t, o.Open(&scratch, dst[:100], s.chars[:100], &s.nonce, &s.about, &s.tag))
}

// TestOpenAllocatesNothing counts the allocations of a warm call.
func TestOpenAllocatesNothing(t *testing.T) { eachPath(t, openAllocatesNothing) }

func openAllocatesNothing(t *testing.T) {
	s := newSealed(t, rand.New(rand.NewPCG(3, 1)), 4096)
	o := s.opener(t)
	scratch, dst := new(Scratch), make([]byte, len(s.text))
	require.Zero(t, testutil.AllocsPerRun(100, 0, func() {
		if !o.Open(scratch, dst, s.chars, &s.nonce, &s.about, &s.tag) {
			panic("it does not open")
		}
	}))
}

// TestElements checks the field: multiplication by x and by one.
func TestElements(t *testing.T) {
	one, x := element{1 << 63, 0}, element{1 << 62, 0}
	e := element{0x0123456789abcdef, 0xfedcba9876543211}
	require.Equal(t, e, e.times(one))
	require.Equal(t, e.timesX(), e.times(x))
	require.Equal(t, e.timesX(), x.times(e))
}

// FuzzOpen compares with crypto/cipher for arbitrary keys, nonces and data.
func FuzzOpen(f *testing.F) {
	f.Add(uint64(1), uint8(1))
	f.Add(uint64(2), uint8(16))
	f.Fuzz(func(t *testing.T, seed uint64, groups uint8) {
		s := newSealed(t, rand.New(rand.NewPCG(seed, 7)), (1+int(groups)%8)*GroupBytes)
		dst := make([]byte, len(s.text))
		for _, p := range paths {
			o := newOpener(&s.key, p)
			require.True(t, o.Open(new(Scratch), dst, s.chars, &s.nonce, &s.about, &s.tag))
			require.Equal(t, s.text, dst)
			at := seed % TagBytes
			change := byte(1 + seed>>8%255)
			s.tag[at] ^= change
			require.False(t, o.Open(new(Scratch), dst, s.chars, &s.nonce, &s.about, &s.tag))
			s.tag[at] ^= change
		}
	})
}

// BenchmarkOpen compares the fast path with crypto/cipher.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{2048, MaxBytes} {
		s := newSealed(b, rand.New(rand.NewPCG(4, 1)), n)
		scratch, dst := new(Scratch), make([]byte, n+1024)[1024:] // not at the same place of a page as the source
		for _, p := range paths {
			o := newOpener(&s.key, p)
			b.Run(fmt.Sprintf("%d-%s", n, [...]string{bits512: "512", bits256: "256", bits128: "128"}[p]), func(b *testing.B) {
				b.SetBytes(int64(n))
				for range b.N {
					o.Open(scratch, dst, s.chars, &s.nonce, &s.about, &s.tag)
				}
			})
		}
		b.Run(fmt.Sprintf("%d-twin", n), func(b *testing.B) {
			block, _ := aes.NewCipher(s.key[:])
			aead, _ := cipher.NewGCM(block)
			both := append(append([]byte{}, s.chars...), s.tag[:]...)
			b.SetBytes(int64(n))
			for range b.N {
				if _, err := aead.Open(dst[:0], s.nonce[:], both, s.about[:]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
