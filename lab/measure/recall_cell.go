package measure

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/llmrun/llmrun/internal/bench"
)

// RecallCell holds the answers about one context of one document in one format. A run can be
// split: cells are saved as lines of JSON, and a later run does not ask again.
type RecallCell struct {
	// Of identifies the documents, the questions, the model's name and the selection. Cells of
	// other ones are of no use.
	Of       string                    `json:"of"`
	KV       string                    `json:"kv"`
	Document int                       `json:"document"`
	Context  int                       `json:"context"`
	Kinds    []string                  `json:"kinds"` // of the questions
	Answers  map[string][]RecallAnswer `json:"answers"`
}

// RecallAnswer is the answer to one question in one mode.
type RecallAnswer struct {
	Question  int     `json:"question"`
	Right     bool    `json:"right"`
	Different bool    `json:"different,omitempty"` // from the answer that must be the same
	TokenMS   float64 `json:"token_ms"`
	// Read are the bytes read from flash for the tokens of the answer, and Cold those that exact
	// attention would have read. First is the fraction for the question and the first token.
	Read  int64   `json:"read"`
	Cold  int64   `json:"cold"`
	First float64 `json:"first"`
}

// recallVersion changes whenever documents or questions are made in another way.
const recallVersion = 1

// recallOf returns what identifies the cells of a run.
func recallOf(o *RecallOptions) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %v %s %d %d %s", recallVersion, filepath.Base(o.Path), o.Contexts, o.Select, o.Questions, o.Every, o.Text)
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// ReadRecallCells reads cells of earlier runs, one a line. A last line that is cut off, because a
// run was killed, is left out; its length is returned.
func ReadRecallCells(r io.Reader) (cells []RecallCell, cut int, err error) {
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return cells, len(line), nil
		}
		if err != nil {
			return cells, 0, err
		}
		var cell RecallCell
		if err := json.Unmarshal(line, &cell); err != nil {
			return cells, 0, fmt.Errorf("%w: line %d of the results is no cell: %w", bench.ErrBench, n, err)
		}
		cells = append(cells, cell)
	}
}

// isDone reports whether all cells of a job are there.
func (b *recallBench) isDone(j recallJob) bool {
	for _, context := range b.o.Contexts {
		if !b.has(j, context) {
			return false
		}
	}
	return true
}

// has reports whether a cell is there.
func (b *recallBench) has(j recallJob, context int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.cells {
		if c := &b.cells[i]; c.KV == j.format && c.Document == j.document && c.Context == context {
			return true
		}
	}
	return false
}

// add keeps and saves a new cell.
func (b *recallBench) add(c RecallCell) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cells = append(b.cells, c)
	if b.o.Save == nil {
		return nil
	}
	return b.o.Save(c)
}
