package pack

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// planesBytes returns a pack of the tensors, with zero weights.
func planesBytes(t *testing.T, tensors ...Tensor) []byte {
	fsys := vfs.NewMem()
	require.NoError(t, Write(fsys, "m.pack", Contents{Sections: []Section{{Name: "blk.0", Tensors: tensors}}}, func(w io.Writer) error {
		for i := range tensors {
			size, err := tensors[i].Bytes()
			require.NoError(t, err)
			if _, err := w.Write(make([]byte, size)); err != nil {
				return err
			}
		}
		return nil
	}))
	f, err := fsys.Open("m.pack")
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	data := make([]byte, size)
	_, err = f.ReadAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return data
}

// TestPlanesBelongTogether opens packs of planes: the whole tensor is a tensor of the pack, and a plane without the
// other one is refused, and so is one in a pack of the version before.
func TestPlanesBelongTogether(t *testing.T) {
	plane := func(name string, p tiled.Plane, rows int) Tensor {
		return Tensor{Name: name, Type: quant.Q8_0, Shape: []int{rows, 64}, Layout: PlaneLayout(p)}
	}
	high, low := plane("w", tiled.High4, 20), plane("w.low", tiled.Low4, 20)
	both := planesBytes(t, high, low)
	require.NoError(t, openBytes(t, both))
	copy(both, encodeHeader(Version))
	require.ErrorContains(t, openBytes(t, both), "layout 2 is unknown in version 2")
	for want, tensors := range map[string][]Tensor{
		"has no low plane":        {high},
		"1 low planes more":       {low},
		"of its type and shape":   {high, plane("w.low", tiled.Low4, 16)},
		"has no low plane of its": {high, plane("v.low", tiled.Low4, 20)},
	} {
		err := openBytes(t, planesBytes(t, tensors...))
		require.ErrorContains(t, err, want)
		require.ErrorIs(t, err, store.ErrFormat)
	}

	fsys := vfs.NewMem()
	require.NoError(t, vfs.WriteAtomic(fsys, "m.pack", func(w io.Writer) error {
		_, err := w.Write(planesBytes(t, high, low))
		return err
	}))
	f, err := Open(fsys, "m.pack")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.True(t, f.HasPlanes())
	require.Len(t, f.Tensors(), 1)
	whole, ok := f.Tensor("w")
	require.True(t, ok)
	require.EqualValues(t, 20*2*34, whole.Size)
	require.NoError(t, f.Verify(context.Background(), nil))
	data := make([]byte, whole.Size)
	_, err = f.ReadAt(whole, data, 0)
	require.NoError(t, err)
	require.Equal(t, byte(0x80), data[2], "codes of zeros in both planes are -128")
}
