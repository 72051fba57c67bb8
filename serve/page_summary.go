package serve

import (
	"context"
	"net/http"
	"time"

	"github.com/llmrun/llmrun"
)

// summaryRequest is a request for the summary of a document. The answer is a stream of events: its progress, then the summary. If the
// client leaves, the work ends. With a cache directory the finished parts are saved, and the same request goes on from there.
type summaryRequest struct {
	server   *Server
	document *llmrun.Document
	options  llmrun.SummarizeOptions
}

// maxSummaryText bounds the name, the instructions and the language of a summary, in bytes.
const maxSummaryText = 4096

// progressTime is the least time between two events about one part.
const progressTime = 500 * time.Millisecond

func (s *Server) readSummary(o *object) *job {
	limited := func(field string) string {
		text := o.text(field)
		if len(text) > maxSummaryText {
			o.fail(field, "is too long")
		}
		return text
	}
	r := &summaryRequest{server: s}
	r.options.Instructions, r.options.Language = limited("instructions"), limited("language")
	if words := o.whole("words", 1, 20000); words != nil {
		r.options.Words = int(*words)
	}
	r.options.Cite = o.boolean("cite", false)
	o.need("text")
	r.document = llmrun.TextDocument(limited("name"), o.text("text"))
	if r.document.Size == 0 {
		o.fail("text", "is empty")
	}
	return &job{model: o.text("model"), plain: true, run: r.run}
}

// summaryProgress tells how far a summary is.
type summaryProgress struct {
	Level int   `json:"level"`
	Part  int   `json:"part"`
	Parts int   `json:"parts"`
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
}

// summaryEvent is an event of the stream.
type summaryEvent struct {
	Progress *summaryProgress `json:"progress,omitempty"`
	Summary  *llmrun.Summary  `json:"summary,omitempty"`
}

func (r *summaryRequest) run(ctx context.Context, w http.ResponseWriter, u *use) error {
	t := newStream(w, true)
	var last summaryProgress
	r.options.Progress = func(p llmrun.SummaryProgress) {
		now := summaryProgress{p.Level, p.Part, p.Parts, p.Done, p.Total}
		if t.started && now.Level == last.Level && now.Part == last.Part && time.Since(t.last) < progressTime {
			return
		}
		last = now
		_ = t.send(summaryEvent{Progress: &now}) // if the client has left, its request ends by its context
	}
	r.options.Answered = func(s llmrun.Stats) {
		r.server.metrics.count(&llmrun.Stats{}, &s)
		recordOf(ctx).count(s)
	}
	var summary *llmrun.Summary
	err := u.whileStarved(ctx, func() (err error) {
		summary, err = u.engine.Summarize(ctx, r.document, r.options)
		return err
	})
	if err != nil {
		return r.server.breakOff(ctx, t, err, ollama{}.errorBody)
	}
	_ = t.send(summaryEvent{Summary: summary}) // fails if the client has left
	return nil
}
