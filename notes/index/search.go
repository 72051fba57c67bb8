package index

import (
	"cmp"
	"math"
	"slices"
)

// The constants of BM25.
const (
	saturation = 1.2  // k1: how much a second occurrence of a word adds
	lengthPart = 0.75 // b: how much long passages are discounted
)

const (
	// candidates is how many passages of each ranking are fused.
	candidates = 100
	// fusionRank is the constant of reciprocal rank fusion: a passage at rank r gets 1/(fusionRank+r) of each ranking.
	fusionRank = 60
)

// Query is a question.
type Query struct {
	Text string
	// Vector is that of the question, by the model of Options. nil searches words alone.
	Vector []float32
	// Vectors ranks by vectors alone, without words.
	VectorsOnly bool
	Most        int // hits
	PerNote     int // hits of the same note; 0 means 1
}

// Hit is a passage that a search has found.
type Hit struct {
	Path       string
	Title      string
	Start, End int // bytes of the file
	Key        Key
	Score      float64
}

// ranked is a passage with its score.
type ranked struct {
	passage uint32
	score   float64
}

// Search returns the best passages, the best one first. Of equal scores, the first in the order of paths and offsets
// comes first, so that a result does not depend on the order in which notes were indexed.
func (x *Index) Search(q Query) ([]Hit, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	most, perNote := max(1, q.Most), max(1, q.PerNote)
	var all []ranked
	if !q.VectorsOnly {
		all = x.rankWords(q.Text)
	}
	if q.Vector != nil && x.vectors.rows > 0 {
		near, err := x.rankVectors(q.Vector, max(nearRows, 4*most*perNote))
		if err != nil {
			return nil, err
		}
		if q.VectorsOnly {
			all = near
		} else {
			all = x.fuse(x.best(all, candidates, candidates), x.best(near, candidates, candidates))
		}
	}
	var hits []Hit
	for _, r := range x.best(all, most, perNote) {
		p := &x.passages[r.passage]
		n := &x.notes[p.note]
		hits = append(hits, Hit{n.path, n.title, int(p.start), int(p.end), p.key, r.score})
	}
	return hits, nil
}

// rankWords returns the passages with words of a text and their BM25.
func (x *Index) rankWords(text string) []ranked {
	if x.live == 0 {
		return nil
	}
	mean := float64(x.liveWords) / float64(x.live)
	scores := make([]float64, len(x.passages))
	var list []posting
	for _, term := range queryTerms(text) {
		list = slices.DeleteFunc(x.postings.read(list[:0], term), func(p posting) bool { return x.notes[x.passages[p.passage].note].gone })
		n := float64(len(list))
		weight := math.Log1p((float64(x.live) - n + 0.5) / (n + 0.5))
		for _, p := range list {
			times := float64(p.times)
			length := 1 - lengthPart + float64(lengthPart*float64(x.passages[p.passage].words))/mean
			part := float64(weight*times) * (saturation + 1) / (times + float64(saturation*length))
			scores[p.passage] += part
		}
	}
	var all []ranked
	for i, score := range scores {
		if score > 0 {
			all = append(all, ranked{uint32(i), score})
		}
	}
	return all
}

// queryTerms returns the terms of a question, each once and sorted, so that scores are sums in one order.
func queryTerms(text string) (terms []uint64) {
	s := splitter{query: true}
	s.terms([]byte(text), func(term uint64) { terms = append(terms, term) })
	if kept := slices.DeleteFunc(slices.Clone(terms), func(term uint64) bool { return stopWords[term] }); len(kept) > 0 {
		terms = kept
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// nearRows is how many passages get finer scores. Each one that is fused or returned is one of them.
const nearRows = 256

// rankVectors returns at least the most passages whose vectors are nearest to the question's, with their dot products.
func (x *Index) rankVectors(query []float32, most int) ([]ranked, error) {
	coarse, err := x.vectors.scores(query)
	if err != nil {
		return nil, err
	}
	unit, err := normalized(query)
	if err != nil {
		return nil, err
	}
	all, sorted := make([]ranked, 0, x.live), make([]float32, 0, x.live)
	for _, slot := range x.byPath {
		n := &x.notes[slot]
		for i := n.first; i < n.first+n.count; i++ {
			row, has := x.vectors.byKey[x.passages[i].key]
			if has && coarse[row] == coarse[row] { // a damaged scale may be no number
				all, sorted = append(all, ranked{uint32(i), float64(coarse[row])}), append(sorted, coarse[row])
			}
		}
	}
	if len(all) > most {
		slices.Sort(sorted)
		least := float64(sorted[len(sorted)-most])
		all = slices.DeleteFunc(all, func(r ranked) bool { return r.score < least })
	}
	for i := range all {
		all[i].score += x.vectors.rest(int(x.vectors.byKey[x.passages[all[i].passage].key]), unit)
	}
	return all, nil
}

// fuse adds the reciprocal ranks of two rankings.
func (x *Index) fuse(rankings ...[]ranked) []ranked {
	sums := map[uint32]float64{}
	for _, ranking := range rankings {
		for i, r := range ranking {
			sums[r.passage] += 1 / float64(fusionRank+1+i)
		}
	}
	all := make([]ranked, 0, len(sums))
	for passage, score := range sums {
		all = append(all, ranked{passage, score})
	}
	return all
}

// best returns the most passages with the highest scores, sorted, at most perNote of a note.
func (x *Index) best(all []ranked, most, perNote int) []ranked {
	if perNote < most { // a first selection needs the best of each note
		all = x.bestOfNotes(all, perNote)
	}
	if len(all) > most {
		x.selectBest(all, most)
		all = all[:most]
	}
	slices.SortFunc(all, x.compare)
	return all
}

// compare orders passages: the better one first.
func (x *Index) compare(a, b ranked) int {
	if c := cmp.Compare(b.score, a.score); c != 0 || a.passage == b.passage {
		return c
	}
	p, q := &x.passages[a.passage], &x.passages[b.passage]
	return cmp.Or(cmp.Compare(x.notes[p.note].path, x.notes[q.note].path), cmp.Compare(p.start, q.start))
}

// bestOfNotes returns the best passages of each note.
func (x *Index) bestOfNotes(all []ranked, perNote int) []ranked {
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(x.passages[a.passage].note, x.passages[b.passage].note), x.compare(a, b))
	})
	kept := all[:0]
	note, n := uint32(math.MaxUint32), 0
	for _, r := range all {
		if of := x.passages[r.passage].note; of != note {
			note, n = of, 0
		}
		if n++; n <= perNote {
			kept = append(kept, r)
		}
	}
	return kept
}

// selectBest moves the most best passages to the front, in any order.
func (x *Index) selectBest(all []ranked, most int) {
	for lo, hi := 0, len(all); hi-lo > 1; {
		pivot := all[(lo+hi)/2]
		better, equal := lo, lo
		for i := lo; i < hi; i++ { // better ones, then the pivot, then the others
			switch c := x.compare(all[i], pivot); {
			case c < 0:
				all[i], all[equal] = all[equal], all[i]
				all[equal], all[better] = all[better], all[equal]
				better, equal = better+1, equal+1
			case c == 0:
				all[i], all[equal] = all[equal], all[i]
				equal++
			}
		}
		switch {
		case most < better:
			hi = better
		case most > equal:
			lo = equal
		default:
			return
		}
	}
}
