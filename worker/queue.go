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
	workers      = "workers"     // the consumer that all workers share
	jobBucket    = "llmrun_jobs"
	answerBucket = "llmrun_answers" // by the keys of steps, so that a changed document finds those of its old parts
	documents    = "llmrun_documents"
	results      = "llmrun_results"
)

// queue is the work and its results on a server.
type queue struct {
	conn      *nats.Conn
	js        jetstream.JetStream
	consumer  jetstream.Consumer // nil for who takes no work
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
	Temperature  *float32 `json:"temperature,omitempty"`
	Seed         *uint64  `json:"seed,omitempty"`
	// PartTokens and Identity are those of the first worker that plans the job. All others have to agree.
	PartTokens int    `json:"part_tokens,omitempty"`
	Identity   string `json:"identity,omitempty"`
}

// options returns the options of the summary, with an engine's sampling.
func (j *job) options(sampling llmrun.Sampling) llmrun.SummarizeOptions {
	o := llmrun.SummarizeOptions{Instructions: j.Instructions, Language: j.Language, Words: j.Words, Method: j.Method, Cite: j.Cite, PartTokens: j.PartTokens}
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
	Error string `json:"error,omitempty"`
}

// openQueue connects to a server, and makes what is missing there. lostAfter is the time after which the work of a worker
// that tells nothing is given to another one; with 0 the queue takes no work.
func openQueue(ctx context.Context, url string, lostAfter time.Duration) (*queue, error) {
	conn, err := nats.Connect(url, nats.Name("llmworker"), nats.MaxReconnects(-1))
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
	if q.js, err = jetstream.New(q.conn); err != nil {
		return err
	}
	// A subject has one message at most, so that work that waits or is under way is not added again.
	stream, err := q.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: workStream, Subjects: []string{planSubject + ".*", stepSubject + ".*.*"}, Retention: jetstream.WorkQueuePolicy,
		Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, DiscardNewPerSubject: true, Storage: jetstream.FileStorage,
	})
	if err != nil {
		return fmt.Errorf("JetStream, which nats-server -js turns on: %w", err)
	}
	if lostAfter > 0 {
		q.consumer, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: workers, AckPolicy: jetstream.AckExplicitPolicy, AckWait: lostAfter, MaxDeliver: -1, MaxAckPending: -1,
		})
		if err != nil {
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
