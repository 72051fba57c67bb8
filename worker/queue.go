package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/llmrun/llmrun"
)

// Names on the server.
const (
	workStream   = "LLMRUN"      // a work queue: a message is deleted when it is acknowledged
	planSubject  = "llmrun.plan" // .JOB: find the steps of a document that have no answer
	stepSubject  = "llmrun.step" // .JOB.KEY: compute a step
	computers    = "workers"     // the consumer of steps that all workers share
	planners     = "planners"    // that of plans
	jobBucket    = "llmrun_jobs"
	answerBucket = "llmrun_answers" // by the keys of steps, so that a changed document finds those of its old parts
	documents    = "llmrun_documents"
	results      = "llmrun_results"
)

// queue is the work and its results on a server.
type queue struct {
	conn      *nats.Conn
	js        jetstream.JetStream
	stream    jetstream.Stream
	steps     jetstream.Consumer // nil for who takes no work
	plans     jetstream.Consumer // likewise
	jobs      jetstream.KeyValue
	answers   jetstream.KeyValue
	documents jetstream.ObjectStore
	results   jetstream.ObjectStore
}

// job is a document to summarize.
type job struct {
	Document     string   `json:"document"`
	Instructions string   `json:"instructions,omitempty"`
	Language     string   `json:"language,omitempty"`
	Words        int      `json:"words,omitempty"`
	Method       string   `json:"method,omitempty"`
	Cite         bool     `json:"cite,omitempty"`
	Schema       string   `json:"schema,omitempty"`
	Temperature  *float32 `json:"temperature,omitempty"`
	Seed         *uint64  `json:"seed,omitempty"`
	// PartTokens and Identity are those of the first worker that plans the job. All others have to agree.
	PartTokens int    `json:"part_tokens,omitempty"`
	Identity   string `json:"identity,omitempty"`
}

// options returns the options of the summary, with an engine's sampling.
func (j *job) options(sampling llmrun.Sampling) llmrun.SummarizeOptions {
	o := llmrun.SummarizeOptions{Instructions: j.Instructions, Language: j.Language, Words: j.Words, Method: j.Method, Cite: j.Cite, Schema: j.Schema, PartTokens: j.PartTokens}
	if j.Temperature != nil && *j.Temperature > 0 {
		o.Sampling = sampling
		o.Sampling.Temperature = *j.Temperature
	}
	o.Sampling.Seed = j.Seed
	return o
}

// result is what becomes of a job.
type result struct {
	Document string `json:"file"`
	*llmrun.Summary
	Fields json.RawMessage `json:"fields,omitempty"` // of a job with a schema: the summary's text
	Error  string          `json:"error,omitempty"`
}

// Most times that a server under load is given.
const (
	connectTime  = 10 * time.Second
	requestTime  = 30 * time.Second
	transferTime = 15 * time.Minute // for a document
)

// openQueue connects to a server, and makes what is missing there. lostAfter is the time after which the work of a worker
// that tells nothing is given to another one; with 0 the queue takes no work.
func openQueue(ctx context.Context, url string, lostAfter time.Duration) (*queue, error) {
	conn, err := nats.Connect(url, nats.Name("llmworker"), nats.MaxReconnects(-1), nats.Timeout(connectTime))
	if err != nil {
		return nil, fmt.Errorf("--nats %s: %w", url, err)
	}
	q := &queue{conn: conn}
	if err := q.open(ctx, lostAfter); err != nil {
		conn.Close()
		return nil, fmt.Errorf("--nats %s: %w", url, err)
	}
	return q, nil
}

func (q *queue) close() { q.conn.Close() }

func (q *queue) open(ctx context.Context, lostAfter time.Duration) (err error) {
	if q.js, err = jetstream.New(q.conn, jetstream.WithDefaultTimeout(requestTime)); err != nil {
		return err
	}
	// A subject has one message at most, so that work that waits or is under way is not added again.
	q.stream, err = q.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: workStream, Subjects: []string{planSubject + ".*", stepSubject + ".*.*"}, Retention: jetstream.WorkQueuePolicy,
		Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, DiscardNewPerSubject: true, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return fmt.Errorf("JetStream, which nats-server -js turns on: %w", err)
	}
	if lostAfter > 0 {
		// Steps are a consumer of their own, so that workers can prefer them: one consumer delivers again what was put back
		// before it delivers what is new, and plans of many documents, each due again by then, would leave no worker for a step.
		consumer := jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: lostAfter, MaxDeliver: -1, MaxAckPending: -1}
		consumer.Durable, consumer.FilterSubject = computers, stepSubject+".*.*"
		if q.steps, err = q.stream.CreateOrUpdateConsumer(ctx, consumer); err != nil {
			return err
		}
		consumer.Durable, consumer.FilterSubject = planners, planSubject+".*"
		if q.plans, err = q.stream.CreateOrUpdateConsumer(ctx, consumer); err != nil {
			return err
		}
	}
	for bucket, kv := range map[string]*jetstream.KeyValue{jobBucket: &q.jobs, answerBucket: &q.answers} {
		if *kv, err = q.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket, Storage: jetstream.FileStorage}); err != nil {
			return err
		}
	}
	for bucket, store := range map[string]*jetstream.ObjectStore{documents: &q.documents, results: &q.results} {
		if *store, err = q.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: bucket, Storage: jetstream.FileStorage}); err != nil {
			return err
		}
	}
	return nil
}

// submit adds a document, unless the same one with the same options is there already. It returns the job's ID.
func (q *queue) submit(ctx context.Context, j job, doc *llmrun.Document) (id string, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(doc.Text, 0, doc.Size)); err != nil {
		return "", fmt.Errorf("%s: %w", doc.Name, err)
	}
	record, err := json.Marshal(j)
	if err != nil {
		return "", err
	}
	h.Write(record) // never fails
	id = hex.EncodeToString(h.Sum(nil)[:6])
	// The job is written last: one that is there is complete.
	if _, err := q.jobs.Get(ctx, id); errors.Is(err, jetstream.ErrKeyNotFound) {
		if _, err := q.documents.Put(ctx, jetstream.ObjectMeta{Name: id, Description: doc.Name}, io.NewSectionReader(doc.Text, 0, doc.Size)); err != nil {
			return "", fmt.Errorf("%s: storing the document: %w", doc.Name, err)
		}
		if _, err := q.jobs.Create(ctx, id, record); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
			return "", fmt.Errorf("%s: storing the job: %w", doc.Name, err)
		}
	} else if err != nil {
		return "", err
	}
	_, done, err := q.result(ctx, id)
	if done || err != nil {
		return id, err
	}
	return id, q.add(ctx, planSubject+"."+id, nil)
}

// take takes work: a step, or if none waits, a plan, for which it waits a moment. msg is nil if there is none.
func (q *queue) take() (msg jetstream.Msg, err error) {
	batch, err := q.steps.FetchNoWait(1)
	if err != nil {
		return nil, err
	}
	if msg, err = only(batch); msg != nil || err != nil {
		return msg, err
	}
	if batch, err = q.plans.Fetch(1, jetstream.FetchMaxWait(fetchWait)); err != nil {
		return nil, err
	}
	return only(batch)
}

// only returns the message of a batch of at most one.
func only(batch jetstream.MessageBatch) (jetstream.Msg, error) {
	if msg, ok := <-batch.Messages(); ok {
		return msg, nil
	}
	return nil, batch.Error()
}

// idle reports whether there is no work, also none that is under way or waits for its time.
func (q *queue) idle(ctx context.Context) bool {
	info, err := q.stream.Info(ctx)
	return err == nil && info.State.Msgs == 0
}

// add adds work, unless it waits or is under way already.
func (q *queue) add(ctx context.Context, subject string, data []byte) error {
	_, err := q.js.Publish(ctx, subject, data)
	var refused *jetstream.APIError
	if errors.As(err, &refused) && strings.Contains(refused.Description, "maximum messages per subject exceeded") {
		return nil
	}
	return err
}

// job returns a job and its revision.
func (q *queue) job(ctx context.Context, id string) (j job, revision uint64, err error) {
	entry, err := q.jobs.Get(ctx, id)
	if err != nil {
		return job{}, 0, err
	}
	return j, entry.Revision(), json.Unmarshal(entry.Value(), &j)
}

// claim states the part length and the identity of a job, unless another worker has.
func (q *queue) claim(ctx context.Context, id string, j job, revision uint64) (job, error) {
	record, err := json.Marshal(j)
	if err != nil {
		return job{}, err
	}
	if _, err := q.jobs.Update(ctx, id, record, revision); err == nil || !errors.Is(err, jetstream.ErrKeyExists) {
		return j, err
	}
	j, _, err = q.job(ctx, id)
	return j, err
}

// answer returns the answer to a step.
func (q *queue) answer(ctx context.Context, key string) (a llmrun.SummaryAnswer, ok bool, err error) {
	entry, err := q.answers.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	return a, true, json.Unmarshal(entry.Value(), &a)
}

// save saves the answer to a step. It returns when the server has stored it.
func (q *queue) save(ctx context.Context, key string, a llmrun.SummaryAnswer) error {
	data, err := json.Marshal(a)
	if err == nil {
		_, err = q.answers.Put(ctx, key, data)
	}
	return err
}

// result returns the result of a job, if there is one.
func (q *queue) result(ctx context.Context, id string) (r result, done bool, err error) {
	data, err := q.results.GetBytes(ctx, id)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	return r, true, json.Unmarshal(data, &r)
}

// finish saves the result of a job.
func (q *queue) finish(ctx context.Context, id string, r result) error {
	data, err := json.Marshal(r)
	if err == nil {
		_, err = q.results.PutBytes(ctx, id, data)
	}
	return err
}

// ids returns the IDs of all jobs, sorted.
func (q *queue) ids(ctx context.Context) ([]string, error) {
	ids, err := q.jobs.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, nil
	}
	slices.Sort(ids)
	return ids, err
}
