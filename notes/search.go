package notes

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/llmrun/llmrun/notes/index"
)

// SearchOptions configure a search.
type SearchOptions struct {
	// Most is the most hits; 0 means 10.
	Most int
	// PerNote is the most hits of one note; 0 means 1.
	PerNote int
}

// Hit is a passage that a search has found.
type Hit struct {
	File  string  `json:"file"`  // below the directory of the notes, with slashes
	Start int     `json:"start"` // bytes of the file
	End   int     `json:"end"`
	Score float64 `json:"score"` // comparable within one search
	Text  string  `json:"text"`
	Title string  `json:"-"` // of the note
}

// RerankDepth returns how many passages a [Ranker] reads to choose the best ones.
func RerankDepth(most int) int { return max(3*most, 20) }

// Search returns the passages that match a question best. Passages of notes that have changed since the last update, so
// that they are not what the index has seen, are left out.
func (v *Vault) Search(ctx context.Context, question string, o SearchOptions) ([]Hit, error) {
	if _, err := v.open(); err != nil { // before a model works in vain
		return nil, err
	}
	most := cmp.Or(o.Most, 10)
	q := index.Query{Text: question, Most: most, PerNote: o.PerNote}
	if v.options.Ranker != nil {
		q.Most = RerankDepth(most)
	}
	var err error
	if q.Vector, err = v.embedQuestion(ctx, question); err != nil {
		return nil, err
	}
	found, err := v.searchIndex(q)
	if err != nil {
		return nil, err
	}
	hits := v.read(found)
	if v.options.Ranker != nil {
		return Rerank(ctx, v.options.Ranker, question, hits, most)
	}
	return hits[:min(most, len(hits))], nil
}

// searchIndex searches the index, which no trim closes meanwhile.
func (v *Vault) searchIndex(q index.Query) ([]index.Hit, error) {
	v.searching.RLock()
	defer v.searching.RUnlock()
	x, err := v.open()
	if err != nil {
		return nil, err
	}
	return x.Search(q)
}

// embedQuestion returns the vector of a question, nil without an encoder.
func (v *Vault) embedQuestion(ctx context.Context, question string) ([]float32, error) {
	e := v.options.Embedder
	if e == nil {
		return nil, nil
	}
	return v.queries.get(question, func() ([]float32, error) {
		vectors, err := e.Embed(ctx, []string{question}, true)
		if err == nil && len(vectors) != 1 {
			err = fmt.Errorf("the model gave %d vectors for a question", len(vectors))
		}
		if err != nil {
			return nil, err
		}
		return vectors[0], nil
	})
}

// read reads the texts of hits from their notes, each note once.
func (v *Vault) read(found []index.Hit) []Hit {
	hits := make([]Hit, 0, len(found))
	texts := map[string][]byte{}
	for _, h := range found {
		text, known := texts[h.Path]
		if !known {
			text, _ = v.tree.Read(h.Path) // one that cannot be read has no hits
			texts[h.Path] = text
		}
		if _, same := current(h.Title, text, h.Start, h.End, h.Key); same {
			hits = append(hits, Hit{h.Path, h.Start, h.End, h.Score, string(text[h.Start:h.End]), index.Named(h.Path, h.Title)})
		}
	}
	return hits
}

// Rerank returns the best hits by the scores of a ranker, which Search does with [Options].Ranker. Programs whose memory holds one
// model at a time call it when the encoder is closed, with [RerankDepth] hits.
func Rerank(ctx context.Context, ranker Ranker, question string, hits []Hit, most int) ([]Hit, error) {
	if len(hits) == 0 {
		return hits, nil
	}
	texts := make([]string, len(hits))
	for i := range hits {
		texts[i] = index.EmbedText(hits[i].Title, []byte(hits[i].Text))
	}
	scores, err := ranker.Rank(ctx, question, texts)
	if err != nil {
		return nil, err
	}
	if len(scores) != len(hits) {
		return nil, fmt.Errorf("the model gave %d scores for %d passages", len(scores), len(hits))
	}
	hits = slices.Clone(hits)
	for i := range hits {
		hits[i].Score = float64(scores[i])
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits[:min(most, len(hits))], nil
}
