package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/ended"
)

// maxPlanDelay is the longest time between two looks at a document whose steps have no answer yet.
const maxPlanDelay = 20 * time.Second

// fetchWait is how long a worker waits for a plan before it looks for steps again.
const fetchWait = time.Second

// retryDelay is how long work waits that a worker could not do: another one may.
const retryDelay = 10 * time.Second

// worker computes steps.
type worker struct {
	queue     *queue
	engine    *llmrun.Engine
	dir       string        // for documents
	lostAfter time.Duration // see openQueue
	note      func(string)
	wait      func(context.Context) error // of the options of summaries

	current    job // that of summarizer
	summarizer *llmrun.Summarizer
	document   string // the job whose document is in dir
	alive      func() // tells the server that the worker is at work; set while there is
	said       string // why the worker waits for the server
}

func (w *worker) close() error {
	if w.summarizer == nil {
		return nil
	}
	s := w.summarizer
	w.summarizer = nil
	return s.Close()
}

// run works until the context ends, or with drain until there is no work.
func (w *worker) run(ctx context.Context, drain bool) error {
	for ctx.Err() == nil {
		msg, err := w.queue.take()
		switch {
		case errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDeleted):
			return err
		case err != nil:
			w.sleep(ctx, err)
		case msg != nil:
			if err := w.handle(ctx, msg); err != nil && ctx.Err() == nil {
				w.note(fmt.Sprintf("%s: %v", msg.Subject(), err))
			}
		case drain && w.queue.idle(ctx):
			return nil
		}
	}
	return context.Cause(ctx)
}

// sleep waits for a server that may come back, and says why.
func (w *worker) sleep(ctx context.Context, why error) {
	if text := why.Error(); text != w.said {
		w.said = text
		w.note(text)
	}
	_ = ended.Sleep(ctx, fetchWait) // the caller looks at the context
}

// handle does the work of a message, and acknowledges it when what came of it is stored. Work that failed goes back.
func (w *worker) handle(ctx context.Context, msg jetstream.Msg) error {
	at, mu := time.Now(), sync.Mutex{}
	w.alive = func() {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(at) > w.lostAfter/4 {
			at = now
			_ = msg.InProgress() // without it the work is done twice, with the same result
		}
	}
	delay, err := w.do(ctx, msg)
	switch {
	case ctx.Err() != nil:
		return errors.Join(err, msg.Nak())
	case err != nil:
		return errors.Join(err, msg.NakWithDelay(retryDelay))
	case delay > 0:
		return msg.NakWithDelay(delay)
	}
	return msg.DoubleAck(ctx)
}

// do does the work of a message. A delay is when it is to be looked at again.
func (w *worker) do(ctx context.Context, msg jetstream.Msg) (delay time.Duration, err error) {
	if id, ok := strings.CutPrefix(msg.Subject(), planSubject+"."); ok {
		return w.plan(ctx, id)
	}
	id, _, ok := strings.Cut(strings.TrimPrefix(msg.Subject(), stepSubject+"."), ".")
	var step llmrun.SummaryStep
	if err := json.Unmarshal(msg.Data(), &step); !ok || err != nil {
		return 0, errors.Join(fmt.Errorf("the message is no step"), err, msg.Term())
	}
	err = w.compute(ctx, id, &step)
	if errors.Is(err, llmrun.ErrOptions) { // no worker can do it
		return 0, w.fail(ctx, id, err)
	}
	return 0, err
}

// fail makes an error the result of a job.
func (w *worker) fail(ctx context.Context, id string, why error) error {
	j, _, err := w.queue.job(ctx, id)
	if err != nil {
		return err
	}
	return w.queue.finish(ctx, id, result{Document: j.Document, Error: why.Error()})
}

// compute computes a step and saves its answer, unless it has one.
func (w *worker) compute(ctx context.Context, id string, step *llmrun.SummaryStep) error {
	if _, done, err := w.queue.answer(ctx, step.Key); done || err != nil {
		return err
	}
	if _, err := w.prepare(ctx, id); err != nil {
		return err
	}
	answer, err := w.summarizer.Answer(ctx, step)
	if err != nil {
		return err
	}
	return w.queue.save(ctx, step.Key, answer)
}

// plan adds the steps of a document that have no answer, or saves its summary if there is none. delay is when to look
// again.
func (w *worker) plan(ctx context.Context, id string) (delay time.Duration, err error) {
	if _, done, err := w.queue.result(ctx, id); done || err != nil { // a step may have failed for good
		return 0, err
	}
	j, err := w.prepare(ctx, id)
	if err == nil {
		delay, err = w.assemble(ctx, id, j)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return 0, w.fail(ctx, id, fmt.Errorf("%s: a part with its prompt has more bytes than the server takes in a message, %d; submit the document with a smaller --part-tokens", j.Document, w.queue.conn.MaxPayload()))
	}
	if errors.Is(err, llmrun.ErrNotText) || errors.Is(err, llmrun.ErrOptions) { // no worker can do it
		return 0, w.fail(ctx, id, err)
	}
	return delay, err
}

// assemble makes the summary of a document, or adds the steps without an answer.
func (w *worker) assemble(ctx context.Context, id string, j job) (delay time.Duration, err error) {
	text, err := w.fetch(ctx, id)
	if err != nil {
		return 0, err
	}
	defer text.Close()
	info, err := text.Stat()
	if err != nil {
		return 0, err
	}
	doc := &llmrun.Document{Name: j.Document, Text: text, Size: info.Size()}
	load := func(key string) (llmrun.SummaryAnswer, bool, error) {
		w.alive()
		return w.queue.answer(ctx, key)
	}
	summary, err := w.summarizer.Assemble(ctx, doc, load, func(step llmrun.SummaryStep) error {
		data, err := json.Marshal(step)
		if err != nil {
			return err
		}
		delay = min(delay+100*time.Millisecond, maxPlanDelay)
		return w.queue.add(ctx, stepSubject+"."+id+"."+step.Key, data)
	})
	switch {
	case errors.Is(err, llmrun.ErrAnswersMissing):
		return delay, nil
	case err != nil:
		return 0, err
	}
	r := result{Document: j.Document, Summary: summary}
	if j.Schema != "" {
		r.Fields = json.RawMessage(summary.Text)
	}
	return 0, w.queue.finish(ctx, id, r)
}

// errOtherModel reports a job that other workers compute with another model.
var errOtherModel = errors.New("other workers compute this document with another model, or other options")

// prepare opens the summarizer of a job. The first worker decides how long parts are, and which model it is.
func (w *worker) prepare(ctx context.Context, id string) (job, error) {
	j, revision, err := w.queue.job(ctx, id)
	if err != nil {
		return job{}, err
	}
	if err := w.open(j); err != nil {
		return j, err
	}
	identity, err := w.summarizer.Identity()
	if err != nil {
		return j, err
	}
	if j.Identity == "" {
		if j.PartTokens, err = w.summarizer.PartTokens(); err != nil {
			return j, err
		}
		j.Identity = identity
		if j, err = w.queue.claim(ctx, id, j, revision); err != nil {
			return j, err
		}
		if err := w.open(j); err != nil {
			return j, err
		}
	}
	if j.Identity != identity {
		return j, errOtherModel
	}
	if _, err := w.summarizer.PartTokens(); err != nil {
		return j, fmt.Errorf("this worker has too little memory for the parts of the others: %v", err) // another one may have enough
	}
	return j, nil
}

// open opens a summarizer with a job's options, unless it is open.
func (w *worker) open(j job) error {
	if w.summarizer != nil && sameOptions(w.current, j) {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	o := j.options(w.engine.DefaultSampling())
	o.Wait = w.wait
	o.Progress = func(llmrun.SummaryProgress) { w.alive() }
	s, err := w.engine.NewSummarizer(o)
	w.summarizer, w.current = s, j
	return err
}

// sameOptions reports whether two jobs have the same options of a summary.
func sameOptions(a, b job) bool {
	a.Document, b.Document, a.Identity, b.Identity = "", "", "", ""
	first, err := json.Marshal(a)
	if err != nil {
		return false
	}
	second, err := json.Marshal(b)
	return err == nil && string(first) == string(second)
}

// fetch returns the document of a job, which was made plain text when it was submitted. That of the last one is kept.
func (w *worker) fetch(ctx context.Context, id string) (*os.File, error) {
	path := filepath.Join(w.dir, "document.txt")
	if w.document != id {
		w.document = ""
		ctx, cancel := context.WithTimeout(ctx, transferTime)
		defer cancel()
		if err := w.queue.documents.GetFile(ctx, id, path); err != nil {
			return nil, err
		}
		w.document = id
	}
	return os.Open(path)
}
