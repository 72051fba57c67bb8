package pack

import (
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestWriteRejectsInvalidInput passes bodies and contents that do not match.
func TestWriteRejectsInvalidInput(t *testing.T) {
	body := func(n int) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(make([]byte, n)); return err }
	}
	own := errors.New("own")
	one := func(tensor Tensor) Contents {
		return Contents{Sections: []Section{{Name: "s", Tensors: []Tensor{tensor}}}}
	}
	vector := Tensor{Name: "v", Type: quant.F32, Shape: []int{4}}
	for _, c := range []struct {
		name     string
		contents Contents
		body     func(io.Writer) error
		want     string
	}{
		{"too little", one(vector), body(15), `tensor "v" lacks 1 bytes`},
		{"too much", one(vector), body(17), "1 bytes more than the tensors have"},
		{"the body's own error", one(vector), func(io.Writer) error { return own }, "own"},
		{"an empty section", Contents{Sections: []Section{{Name: "s"}}}, body(0), `section "s" is empty`},
		{"an empty tensor", one(Tensor{Name: "v", Type: quant.F32, Shape: []int{0}}), body(0), "no elements"},
		{"rows of part of a block", one(Tensor{Name: "v", Type: quant.Q4_0, Shape: []int{2, 33}}), body(0), "whole number of Q4_0 blocks"},
		{"tiles of floats", one(Tensor{Name: "v", Type: quant.F16, Shape: []int{2, 32}, Layout: Tiles}), body(0), "has no tiles"},
		{"a shape out of range", one(Tensor{Name: "v", Type: quant.F32, Shape: []int{1 << 40, 1 << 40}}), body(0), "out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewMem()
			require.ErrorContains(t, Write(fsys, "m.pack", c.contents, c.body), c.want)
			left, err := fsys.ReadDir(".")
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// TestConcurrentWriters writes the same pack from many goroutines: each succeeds or returns
// ErrLocked, and the file is valid.
func TestConcurrentWriters(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"mem": vfs.NewMem(), "os": vfs.Sub(vfs.OS(), t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			s := small()
			var wg sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				c := s.Contents
				c.Sections = nil // Write sets offsets in the slices that it receives
				for _, sec := range s.Sections {
					c.Sections = append(c.Sections, Section{sec.Name, append([]Tensor(nil), sec.Tensors...)})
				}
				wg.Go(func() { errs[i] = Write(fsys, "m.pack", c, s.body) })
			}
			wg.Wait()
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				require.ErrorIs(t, err, vfs.ErrLocked)
			}
			require.Positive(t, won)
			s.check(t, open(t, fsys))
			left, err := fsys.ReadDir(".")
			require.NoError(t, err)
			require.Len(t, left, 1)
		})
	}
}

// TestStaleTemporariesAreRemoved removes the leftovers of a killed writer and keeps a file
// with a similar name.
func TestStaleTemporariesAreRemoved(t *testing.T) {
	fsys := vfs.NewMem()
	for _, name := range []string{"m.pack" + vfs.TempMark + "1234", "m.pack.lock", "other.pack" + vfs.TempMark + "1234"} {
		require.NoError(t, vfs.WriteFile(fsys, name, []byte("x")))
	}
	s := small()
	require.NoError(t, Write(fsys, "m.pack", s.Contents, s.body))
	left, err := fsys.ReadDir(".")
	require.NoError(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name)
	}
	require.Equal(t, []string{"m.pack", "m.pack.lock", "other.pack" + vfs.TempMark + "1234"}, names)
}

// TestPowerLoss stops a writer before each operation and simulates a power loss: the disk
// then holds no pack, the old one or a complete new one.
func TestPowerLoss(t *testing.T) {
	old, s := small(), small()
	s.About.Source = "new"
	cut := errors.New("cut")
	for k := int64(0); ; k++ {
		mem := vfs.NewMem()
		require.NoError(t, Write(mem, "m.pack", old.Contents, old.body))
		reached := false
		fsys := vfs.NewFaulty(mem, func(op vfs.Op) error {
			if op.Index < k {
				return nil
			}
			reached = true
			return cut
		})
		err := Write(fsys, "m.pack", s.Contents, s.body)
		for _, keep := range []float64{0, 0.5, 1} {
			f := open(t, mem.CrashClone(keep, uint64(k)))
			if f.About().Source == "new" {
				s.check(t, f)
				continue
			}
			require.Error(t, err, "after Write returns, the new pack is durable")
			old.check(t, f)
		}
		if !reached {
			require.NoError(t, err)
			return
		}
	}
}
