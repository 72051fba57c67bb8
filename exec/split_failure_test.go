package exec

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/synth"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

var errLostDevice = errors.New("the device was lost")

// losing is a device of which one matmul fails: the one before which left others are submitted, or,
// if late is set, waited for.
type losing struct {
	hetero.Device
	left *int
	late bool
}

func (d losing) Prepare(op hetero.Op) (hetero.Kernel, error) {
	k, err := d.Device.Prepare(op)
	if err != nil {
		return nil, err
	}
	return losingKernel{k.(hetero.Elastic), d}, nil
}

// lost reports whether this is the matmul that fails.
func (d losing) lost() bool {
	*d.left--
	return *d.left == -1
}

type losingKernel struct {
	hetero.Elastic
	device losing
}

func (k losingKernel) Submit(x, y hetero.View) (hetero.Ticket, error) {
	return k.submit(k.Elastic.Submit(x, y))
}

func (k losingKernel) SubmitSome(tokens int, x, y hetero.View) (hetero.Ticket, error) {
	return k.submit(k.Elastic.SubmitSome(tokens, x, y))
}

func (k losingKernel) submit(t hetero.Ticket, err error) (hetero.Ticket, error) {
	if err != nil || !k.device.lost() {
		return t, err
	}
	if k.device.late {
		return lostTicket{t}, nil
	}
	return nil, errors.Join(errLostDevice, t.Wait())
}

type lostTicket struct{ hetero.Ticket }

func (t lostTicket) Wait() error { return errors.Join(errLostDevice, t.Ticket.Wait()) }

// TestDeviceLostInSmallBudget fails a matmul of a split's device, in each step of a pass, while the CPU's
// rows are streamed in the smallest budget. The pass ends with one error that names the device, the
// sequence is unchanged, and no more memory is held than without the failure. When the device works
// again, logits are the same.
func TestDeviceLostInSmallBudget(t *testing.T) {
	shape, ok := synth.FindShape("tiny")
	require.True(t, ok)
	shape.Layers, shape.Dim, shape.FFN = 3, 512, 1024
	fsys, p := vfs.NewMem(), partners(t)[0]
	require.NoError(t, synth.Write(t.Context(), fsys, "m.gguf", synth.Options{Shape: shape, Quant: "q4_0"}))
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %t", late), func(t *testing.T) {
			left := 1 << 30
			o := p.splitWith(t, split{single: 0.5, batch: 0.5}, Options{Threads: 2, Chunk: 8, KV: kv.K8V8})
			o.Split.Device = losing{o.Split.Device, &left, late}
			f, err := modelfile.Open(fsys, "m.gguf")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, f.Close()) })
			o.Plan = splitPlan(t, f, o, true)
			require.False(t, o.Plan.Resident())
			m, err := Load(t.Context(), f, o)
			require.NoError(t, err)
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			ids := longPrompt(m.Spec.Vocab, 9, 3)
			started := left
			want := extendAll(t, m, s, ids[:8])
			want = append(want, extendAll(t, m, s, ids[8:])...)
			perPass := (started - left) / 2
			require.Greater(t, perPass, 2*len(m.Spec.Layers))
			peak := o.Budget.Usage().TotalPeak
			for n := range perPass {
				s.Truncate(0)
				left = n
				err := m.Extend(t.Context(), s, ids[:8], &ExtendOptions{Want: func(int) bool { return true }, Each: func(int, []float32) error { return nil }})
				require.ErrorIs(t, err, errLostDevice, n)
				require.ErrorContains(t, err, o.Split.Name, n)
				require.NotErrorIs(t, err, context.Canceled)
				require.NotErrorIs(t, err, tiering.ErrBudget)
				require.Zero(t, s.Len())
				got := extendAll(t, m, s, ids[:8])
				require.Equal(t, want, append(got, extendAll(t, m, s, ids[8:])...), n)
			}
			require.Equal(t, peak, o.Budget.Usage().TotalPeak)
			s.Close()
			m.Close()
			require.NoError(t, o.Budget.Check())
		})
	}
}
