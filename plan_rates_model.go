package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero/rates"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// attention adds the speed of a model's attention to its rates.
func (m *rateMeasurer) attention(ctx context.Context, f *modelfile.Files, o exec.ShapeOptions, r *Rates) error {
	spec, err := f.Spec()
	if err != nil {
		return err
	}
	shape := spec.KVShape(o.KV)
	whole := fmt.Sprintf("%s, attention of %d heads of %d, %d layers, %d bytes a token in %s",
		m.machineKey(), spec.Heads, spec.HeadDim, len(spec.Layers), shape.TokenBytes(), o.KV)
	key := whole
	room := powerOfTwo(m.room(0) / 2) // the pass takes about as much as its keys and values
	if room < exec.MeasuredKV {
		key += fmt.Sprintf(", %d KiB of them", room>>10)
	}
	known := m.load()
	if k, ok := m.saved(known, func(r *Rates) bool { return r.AttendGBs > 0 && r.AttendChunkGBs > 0 }, whole, key); ok {
		r.AttendGBs, r.AttendChunkGBs = k.AttendGBs, k.AttendChunkGBs
		r.Lost = max(r.Lost, k.Lost)
		r.olderOf(k.Measured)
		return nil
	}
	load := m.watchLoad()
	a, err := exec.MeasureAttention(ctx, f, o, m.ledger(), max(1, room))
	if errors.Is(err, tiering.ErrBudget) {
		r.AttendGBs, r.AttendChunkGBs = known[key].AttendGBs, known[key].AttendChunkGBs
		return nil
	}
	if err != nil || a.DecodeGBs <= 0 || a.PrefillGBs <= 0 {
		return err // nothing is attended to, or there is no memory for a measurement
	}
	k, err := m.store(known, key, Rates{Measured: timestamp(), Weights: o.KV.String(), Threads: m.threads, AttendGBs: a.DecodeGBs, AttendChunkGBs: a.PrefillGBs, Lost: load()})
	r.AttendGBs, r.AttendChunkGBs = k.AttendGBs, k.AttendChunkGBs
	r.Lost = max(r.Lost, k.Lost)
	return err
}

// conversion adds the speed at which the streamed weights of a model are converted.
func (m *rateMeasurer) conversion(ctx context.Context, f *modelfile.Files, o exec.ShapeOptions, s *tiering.Shape, adapters int, r *Rates) error {
	_, name := vfs.Split(f.Path)
	key := fmt.Sprintf("%s, conversion of %s, %d bytes a token, %d adapters", m.machineKey(), name, s.TokenBytes(), adapters)
	known := m.load()
	if k, ok := m.saved(known, func(r *Rates) bool { return r.ConvertGBs > 0 }, key); ok {
		r.ConvertGBs = k.ConvertGBs
		r.Lost = max(r.Lost, k.Lost)
		r.olderOf(k.Measured)
		return nil
	}
	var err error
	load := m.watchLoad()
	if r.ConvertGBs, err = exec.MeasureConversion(ctx, f, o, m.ledger()); err != nil || r.ConvertGBs == 0 {
		return err
	}
	k, err := m.store(known, key, Rates{Measured: timestamp(), Weights: r.Weights, Threads: m.threads, ConvertGBs: r.ConvertGBs, Lost: load()})
	r.ConvertGBs = k.ConvertGBs
	r.Lost = max(r.Lost, k.Lost)
	return err
}

// rounds adds what a round of scattered reads of a file takes besides their transfer, for pages of a
// size.
func (m *rateMeasurer) rounds(source string, page int64, r *Rates) (err error) {
	folder, _ := vfs.Split(source)
	key := fmt.Sprintf("%s, rounds of %d reads of %d KiB, files in %s, %s%s", m.machineKey(), rates.RoundReads, page>>10, folder, m.flashReads, m.diskKey())
	known := m.load()
	if k, ok := m.saved(known, func(*Rates) bool { return true }, key); ok { // 0 is a measurement, too
		r.RoundSeconds = k.RoundSeconds
		r.olderOf(k.Measured)
		return nil
	}
	file, err := vfs.OpenDirect(m.fsys, source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := file.Size()
	if err != nil {
		return err
	}
	took, err := rates.Round(m.ledger(), io.ReaderAt(file), size, int(min(page, size)), roundTime)
	if errors.Is(err, tiering.ErrBudget) {
		r.RoundSeconds = known[key].RoundSeconds
		return nil
	}
	if err != nil {
		return err
	}
	transfer := float64(rates.RoundReads*vfs.DirectSize(int(page))) / (r.FlashGBs * 1e9)
	k, err := m.store(known, key, Rates{Measured: timestamp(), Threads: m.threads, RoundSeconds: max(0, took.Seconds()-transfer)})
	r.RoundSeconds = k.RoundSeconds
	return err
}
