package weights

import (
	"slices"

	"github.com/llmrun/llmrun/prefetch"
	"github.com/llmrun/llmrun/store/pack"
)

// Where both weights and keys and values are on flash, one stream brings them in
// the order in which a pass needs them: of each layer the weights before
// attention, its keys and values, and the other weights. So the keys and values of
// the next layer are on their way while the MLP of this one is computed, and
// neither kind takes bandwidth that the other needs first.

// joint is how a stream of weights brings keys and values as well.
type joint struct {
	Page   int           // the largest page of keys and values, 0 if none is on flash
	Cut    prefetch.Ring // of the stream of weights
	Starts int           // counts how often that was started or stopped
	places []layerPlace  // [layer] in the stream; nil: run l is layer l
	tail   int           // the first run behind the layers
}

// layerPlace is where a layer's weights are in the stream.
type layerPlace struct {
	before, after int   // runs
	end           int64 // of the matrices before attention, in the section's streamed part
	from          int64 // where the run after attention begins there
}

// forget makes the stream one of weights alone, with another ring.
func (j *joint) forget(ring prefetch.Ring) {
	j.Cut, j.places = ring, nil
	j.Starts++
}

// place returns the run of a section, and the place in it, for an offset in what
// is streamed of the section.
func (j *joint) Place(section int, off int64) (int, int64) {
	switch {
	case j.places == nil:
		return section, off
	case section == len(j.places):
		return j.tail, off
	}
	p := &j.places[section]
	if off < p.end {
		return p.before, off
	}
	return p.after, off - p.from
}

// Joinable reports whether the stream of weights can bring keys and values too.
func (r *Residency) Joinable() bool {
	if r == nil || r.Stream == nil || r.ring == nil || r.Page == 0 || r.Page > (r.Cut.Slots-1)*r.Cut.Piece {
		return false
	}
	for l := range r.w.Layers {
		if _, ok := r.attentionEnd(l); !ok {
			return false
		}
	}
	return true
}

// attentionEnd returns where in a layer's section the matrices end that are used
// before keys and values are. ok is false if others lie before that.
func (r *Residency) attentionEnd(l int) (end int, ok bool) {
	w, places := &r.w.Layers[l], r.Sections[l].Places
	before := []*Matrix{&w.Q.Matrix, &w.K.Matrix, &w.V.Matrix}
	for i := range places {
		if slices.Contains(before, places[i].Matrix) {
			end = max(end, places[i].off+places[i].Bytes())
		}
	}
	for i := range places {
		if places[i].off < end && !slices.Contains(before, places[i].Matrix) {
			return 0, false
		}
	}
	return end, true
}

// Join puts runs of keys and values where layers need them; of layer l they are
// kv[first[l]:first[l+1]]. It returns the number of each in the stream. Blocks of
// the pack that hold weights from before and after attention are read twice.
func (r *Residency) Join(kv []prefetch.Run, first []int) (at []int) {
	seq, _ := r.Sequence()
	weights := seq.Body
	seq.Body = nil
	r.places = make([]layerPlace, len(weights))
	for l, run := range weights {
		p := &r.places[l]
		p.before, p.end = len(seq.Body), run.Size
		if first[l] == first[l+1] {
			seq.Body = append(seq.Body, run)
			continue
		}
		end, _ := r.attentionEnd(l)
		end = max(0, end-int(run.Off))
		p.end = int64(end)
		p.from = int64(end / pack.BlockBytes * pack.BlockBytes)
		head, rest := run, run
		head.Size = min(run.Size, int64((end+pack.BlockBytes-1)/pack.BlockBytes*pack.BlockBytes))
		p.from = min(p.from, run.Size)
		rest.Off, rest.Size = run.Off+p.from, run.Size-p.from
		seq.Body = append(seq.Body, head)
		for i := first[l]; i < first[l+1]; i++ {
			at = append(at, len(seq.Body))
			seq.Body = append(seq.Body, kv[i])
		}
		p.after = len(seq.Body)
		seq.Body = append(seq.Body, rest)
	}
	r.tail = len(seq.Body)
	r.Stream.Reconfigure(r.Cut, seq)
	return at
}

// Part makes the stream one of weights alone again.
func (r *Residency) Part() {
	if r != nil && r.places != nil {
		seq, _ := r.Sequence()
		r.places = nil
		r.Stream.Reconfigure(r.Cut, seq)
	}
}

// Generation counts how often the stream of weights was started or stopped.
func (r *Residency) Generation() int {
	if r == nil {
		return 0
	}
	return r.Starts
}

// WeightStream returns the stream of weights, nil while nothing is streamed.
func (r *Residency) WeightStream() *prefetch.Stream {
	if r == nil {
		return nil
	}
	return r.Stream
}
