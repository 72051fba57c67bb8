package weights

import (
	"slices"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/pack"
)

// If both weights and KV are on flash, one stream reads them in the order of a pass: for each
// layer the weights before attention, then its KV, then the other weights. So the KV of layer
// l+1 is read while the MLP of layer l computes, and no read delays one that the pass needs
// earlier.

// interleaved is the state of a weight stream that also carries KV.
type interleaved struct {
	MaxPage    int           // bytes of the largest KV page; 0: no KV is on flash
	WeightRing prefetch.Ring // of the stream without KV
	Restarts   int           // how often the stream was started or stopped
	runs       []layerRuns   // [layer] in the stream; nil: run l is layer l
	tail       int           // the first run behind the layers
}

// layerRuns is the place of a layer's weights in the stream.
type layerRuns struct {
	before, after int   // runs
	end           int64 // of the matrices before attention, in the streamed part of the section
	afterFrom     int64 // start of the run after attention, in the streamed part of the section
}

// reset removes KV from the stream and sets another ring.
func (j *interleaved) reset(ring prefetch.Ring) {
	j.WeightRing, j.runs = ring, nil
	j.Restarts++
}

// Locate returns the run of a section, and the offset in it, of an offset in the streamed
// part of the section.
func (j *interleaved) Locate(section int, off int64) (int, int64) {
	switch {
	case j.runs == nil:
		return section, off
	case section == len(j.runs):
		return j.tail, off
	}
	p := &j.runs[section]
	if off < p.end {
		return p.before, off
	}
	return p.after, off - p.afterFrom
}

// CanInterleave reports whether the weight stream can carry KV.
func (r *Residency) CanInterleave() bool {
	if r == nil || r.Stream == nil || r.ring == nil || r.MaxPage == 0 || r.MaxPage > (r.WeightRing.Slots-1)*r.WeightRing.Piece {
		return false
	}
	for l := range r.w.Layers {
		if !r.w.Layers[l].KVInStream(&r.Sections[l]) {
			return false
		}
	}
	return true
}

// KVInStream reports whether the stream of weights can read a layer's KV in the middle of its
// section, where attention needs it.
func (w *LayerWeights) KVInStream(section *Layout) bool {
	_, ok := w.attentionEnd(section)
	return ok
}

// attentionEnd returns the end, in the layer's section, of the matrices of queries, keys and
// values. ok is false if other matrices come before it.
func (w *LayerWeights) attentionEnd(section *Layout) (end int, ok bool) {
	if section.drafts {
		return 0, false // draft passes read KV, but no weights
	}
	places := section.Places
	if len(w.Latent.Keys) > 0 {
		return 0, false // its matrices come in several steps
	}
	before := []*Matrix{&w.AltUp.Left.Matrix, &w.Q.Matrix, &w.K.Matrix, &w.V.Matrix}
	for i := range w.AltUp.In {
		before = append(before, &w.AltUp.In[i].Matrix)
	}
	for i := range places {
		if slices.Contains(before, places[i].Matrix) {
			end = max(end, places[i].off+places[i].Bytes())
		}
	}
	for i := range places {
		if places[i].off < end && places[i].Matrix != nil && !slices.Contains(before, places[i].Matrix) {
			return 0, false
		}
	}
	return end, true
}

// Interleave inserts runs of KV where the layers need them; those of layer l are
// kv[first[l]:first[l+1]]. It returns the index of each in the stream. A block of the pack
// that contains weights from before and after attention is read twice.
func (r *Residency) Interleave(kv []prefetch.Run, first []int) (at []int) {
	seq, _ := r.Sequence()
	weights := seq.Body
	seq.Body = nil
	r.runs = make([]layerRuns, len(weights))
	for l, run := range weights {
		p := &r.runs[l]
		p.before, p.end = len(seq.Body), run.Size
		if first[l] == first[l+1] {
			seq.Body = append(seq.Body, run)
			continue
		}
		end, _ := r.w.Layers[l].attentionEnd(&r.Sections[l])
		end = max(0, end-int(run.Off))
		p.end = int64(end)
		p.afterFrom = int64(end / pack.BlockBytes * pack.BlockBytes)
		head, rest := run, run
		head.Size = min(run.Size, int64((end+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes))
		p.afterFrom = min(p.afterFrom, run.Size)
		rest.Off, rest.Size = run.Off+p.afterFrom, run.Size-p.afterFrom
		seq.Body = append(seq.Body, head)
		for i := first[l]; i < first[l+1]; i++ {
			at = append(at, len(seq.Body))
			seq.Body = append(seq.Body, kv[i])
		}
		p.after = len(seq.Body)
		seq.Body = append(seq.Body, rest)
	}
	r.tail = len(seq.Body)
	r.Stream.Reconfigure(r.WeightRing, seq)
	return at
}

// Separate removes KV from the stream.
func (r *Residency) Separate() {
	if r != nil && r.runs != nil {
		seq, _ := r.Sequence()
		r.runs = nil
		r.Stream.Reconfigure(r.WeightRing, seq)
	}
}

// Generation counts how often the weight stream was started or stopped.
func (r *Residency) Generation() int {
	if r == nil {
		return 0
	}
	return r.Restarts
}

// WeightStream returns the weight stream; nil while nothing is streamed.
func (r *Residency) WeightStream() *prefetch.Stream {
	if r == nil {
		return nil
	}
	return r.Stream
}
