package llmrun

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/record"
	"github.com/llmrun/llmrun/store/vfs"
)

// Names in the directory of jobs. Each job has a directory of its own.
const (
	jobsDir       = "jobs"
	jobFile       = "job"
	jobLock       = "lock"
	jobCancelMark = "cancel" // asks the process that works on a job to stop
	partSuffix    = ".part"
)

// lockWait is how long a job waits for a process that only lists jobs.
const lockWait = 5 * time.Second

// Formats of the files of a job.
var (
	jobFormat  = record.Format{Magic: "LLMRJOB\x00", Version: 1, Seed: 0x6a6f62, Limit: 16 << 20, Hint: "llmrun jobs cancel deletes the job"}
	partFormat = record.Format{Magic: "LLMRPART", Version: 2, Seed: 0x70617274, Limit: 16 << 20, Hint: "it is computed again"}
)

// SavedJob is a summary that was begun.
type SavedJob struct {
	ID       string    `json:"id"`
	Document string    `json:"document"`
	Model    string    `json:"model"`
	State    string    `json:"state"` // JobRunning, JobStopped or JobFinished
	Done     int       `json:"done"`  // finished parts
	Parts    int       `json:"parts"`
	Created  time.Time `json:"created"`
	Finished time.Time `json:"finished,omitzero"`
	Bytes    int64     `json:"bytes"`             // on disk
	Summary  string    `json:"summary,omitempty"` // of a finished job
	// Damage is why the job cannot be read. It then has only an ID.
	Damage string `json:"damage,omitempty"`
}

// States of jobs.
const (
	JobRunning  = "running"  // a process works on it
	JobStopped  = "stopped"  // the next run with the same document and options continues it
	JobFinished = "finished" // the next run returns its result, or summarizes what has changed
)

// savedJob is the content of a job's file.
type savedJob struct {
	Document string       `json:"document"`
	Model    string       `json:"model"`
	Sizes    summarySizes `json:"sizes"`
	Parts    int          `json:"parts"`
	Keys     []string     `json:"keys,omitempty"` // of a finished job
	Created  time.Time    `json:"created"`
	Finished time.Time    `json:"finished,omitzero"`
	Summary  string       `json:"summary,omitempty"`
}

// jobStore is the directory of all jobs.
type jobStore struct {
	fsys vfs.FS
	base string // the cache directory
}

func (j *jobStore) path(id string, more ...string) string {
	name := vfs.Join(vfs.Join(j.base, jobsDir), id)
	for _, m := range more {
		name = vfs.Join(name, m)
	}
	return name
}

// openJob is a job that this process works on. A nil openJob saves nothing.
type openJob struct {
	store *jobStore
	id    string
	lock  io.Closer
	saved savedJob
	used  map[string]bool // keys of this run
}

// begin locks the job of a summary.
func (j *jobStore) begin(s *summarizer) (*openJob, error) {
	o := s.options
	// The identity has the schema.
	sum := sha256.Sum256(fmt.Appendf(nil, "job 1\x00%s\x00%s\x00%s\x00%s\x00%d\x00%s\x00%v\x00%d", s.identity, s.document.Name, o.Instructions, o.Language, o.Words, o.Method, o.Cite, o.PartTokens))
	job := &openJob{store: j, id: hex.EncodeToString(sum[:6]), used: map[string]bool{}}
	if err := j.makeDir(job.id); err != nil {
		return nil, fmt.Errorf("saving the job: %w", err)
	}
	var err error
	if job.lock, err = vfs.WaitLock(j.fsys, j.path(job.id, jobLock), lockWait); err != nil {
		return nil, fmt.Errorf("job %s: another process summarizes %s: %w", job.id, s.name(), err)
	}
	_ = j.fsys.Remove(j.path(job.id, jobCancelMark)) // of an earlier run
	job.saved, err = j.read(job.id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrFormat) { // a damaged one is written again
		return nil, errors.Join(err, job.lock.Close())
	}
	return job, nil
}

// makeDir makes the directory of a job, durable with those above it.
func (j *jobStore) makeDir(id string) error {
	if err := j.fsys.MkdirAll(j.path(id)); err != nil {
		return err
	}
	above, _ := vfs.Split(j.base)
	_ = j.fsys.SyncDir(above) // the user may not be allowed to read it
	return errors.Join(j.fsys.SyncDir(j.base), j.fsys.SyncDir(vfs.Join(j.base, jobsDir)))
}

// read reads the file of a job.
func (j *jobStore) read(id string) (saved savedJob, err error) {
	name := j.path(id, jobFile)
	content, err := jobFormat.Read(j.fsys, name)
	if err != nil {
		return savedJob{}, err
	}
	if err := json.Unmarshal(content, &saved); err != nil {
		return savedJob{}, &store.FormatError{Path: name, Off: store.NoOffset, Reason: err.Error(), Hint: jobFormat.Hint, Kind: store.ErrFormat}
	}
	return saved, nil
}

// keptPart returns the length of the parts of an earlier run, if they still fit.
func (j *openJob) keptPart(most int) int {
	if kept := j.saved.Sizes.Part; kept >= minPartTokens && kept <= most {
		return kept
	}
	return most
}

// start writes the file of a job that begins.
func (j *openJob) start(s *summarizer) error {
	if j == nil {
		return nil
	}
	if j.saved.Created.IsZero() {
		j.saved.Created = time.Now().UTC().Truncate(time.Second)
	}
	j.saved = savedJob{Document: s.name(), Model: s.model, Sizes: s.sizes, Parts: len(s.parts), Created: j.saved.Created, Finished: j.saved.Finished, Summary: j.saved.Summary}
	return j.write()
}

func (j *openJob) write() error {
	content, err := json.Marshal(j.saved)
	if err != nil {
		return err
	}
	if err := jobFormat.Write(j.store.fsys, j.store.path(j.id, jobFile), content); err != nil {
		return fmt.Errorf("saving the job: %w", err)
	}
	return nil
}

// load returns a saved answer. One that is damaged is computed again.
func (j *openJob) load(key string) (answer SummaryAnswer, ok bool, err error) {
	if j == nil {
		return SummaryAnswer{}, false, nil
	}
	j.used[key] = true
	content, err := partFormat.Read(j.store.fsys, j.store.path(j.id, key+partSuffix))
	if err == nil && json.Unmarshal(content, &answer) == nil {
		return answer, true, nil
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrFormat) || errors.Is(err, store.ErrUnsupported) || errors.Is(err, vfs.ErrSeal) {
		return SummaryAnswer{}, false, nil
	}
	return SummaryAnswer{}, false, err
}

// save saves an answer. It returns when the file is durable.
func (j *openJob) save(key string, answer SummaryAnswer) error {
	if j == nil {
		return nil
	}
	j.used[key] = true
	content, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	if err := partFormat.Write(j.store.fsys, j.store.path(j.id, key+partSuffix), content); err != nil {
		return fmt.Errorf("saving a part of the job: %w", err)
	}
	return nil
}

// cancelled returns ErrJobCancelled if another process has cancelled the job.
func (j *openJob) cancelled() error {
	if j == nil {
		return nil
	}
	if _, err := j.store.fsys.Stat(j.store.path(j.id, jobCancelMark)); err == nil {
		return ErrJobCancelled
	}
	return nil
}

// finish writes the result, and deletes the answers that belong to an older version of the document.
func (j *openJob) finish(s *summarizer) error {
	if j == nil {
		return nil
	}
	j.saved.Summary, j.saved.Finished = s.summary.Text, time.Now().UTC().Truncate(time.Second)
	if err := j.write(); err != nil {
		return err
	}
	files, err := j.store.fsys.ReadDir(j.store.path(j.id))
	if err != nil {
		return err
	}
	for _, f := range files {
		if key, isPart := strings.CutSuffix(f.Name, partSuffix); isPart && !j.used[key] {
			_ = j.store.fsys.Remove(j.store.path(j.id, f.Name)) // the next run tries again
		}
	}
	return nil
}

// end unlocks the job, and deletes it if it was cancelled.
func (j *openJob) end(err error) error {
	if !errors.Is(err, ErrJobCancelled) {
		return errors.Join(err, j.lock.Close())
	}
	return errors.Join(err, j.store.remove(j.id, j.lock))
}

// remove deletes a job, whose lock the caller holds, and unlocks it.
func (j *jobStore) remove(id string, lock io.Closer) error {
	files, err := j.fsys.ReadDir(j.path(id))
	for _, f := range files {
		if f.Name != jobLock {
			err = errors.Join(err, j.fsys.Remove(j.path(id, f.Name)))
		}
	}
	err = errors.Join(err, lock.Close())
	_ = j.fsys.Remove(j.path(id)) // another process may have begun it again
	return err
}

// describe describes a job.
func (j *jobStore) describe(id string) (SavedJob, error) {
	files, err := j.fsys.ReadDir(j.path(id))
	if err != nil {
		return SavedJob{}, err
	}
	saved, err := j.read(id)
	if err != nil {
		return SavedJob{ID: id}, err
	}
	job := SavedJob{ID: id, Document: saved.Document, Model: saved.Model, State: JobStopped, Parts: saved.Parts, Created: saved.Created, Finished: saved.Finished, Summary: saved.Summary}
	for _, f := range files {
		job.Bytes += f.Size
		if strings.HasSuffix(f.Name, partSuffix) {
			job.Done++
		}
	}
	job.Done = min(job.Done, job.Parts)
	if !job.Finished.IsZero() {
		job.State, job.Done = JobFinished, job.Parts
	}
	lock, err := vfs.Lock(j.fsys, j.path(id, jobLock))
	if errors.Is(err, ErrLocked) {
		job.State = JobRunning
		return job, nil
	}
	if err == nil {
		err = lock.Close()
	}
	return job, err
}

// jobStore returns the jobs of a directory.
func (at SessionDir) jobStore() (*jobStore, error) {
	key, err := readKeyFile(at.KeyFile, at.Path)
	if err != nil {
		return nil, err
	}
	return &jobStore{fsys: key.seal(vfs.OSOwn()), base: at.Path}, nil
}

// Jobs lists the jobs of [Engine.Summarize] in a cache directory, the oldest first. A job that cannot be read has only an
// ID and Damage. Summaries are left out; see Job.
func (at SessionDir) Jobs() (list []SavedJob, err error) {
	j, err := at.jobStore()
	if err != nil {
		return nil, err
	}
	dirs, err := j.fsys.ReadDir(vfs.Join(j.base, jobsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, d := range dirs {
		if !d.IsDir {
			continue
		}
		job, failed := j.describe(d.Name)
		if errors.Is(failed, fs.ErrNotExist) { // written with another key, or not yet
			continue
		}
		if failed != nil {
			job = SavedJob{ID: d.Name, Damage: failed.Error()}
		}
		job.Summary = ""
		list = append(list, job)
	}
	slices.SortStableFunc(list, func(a, b SavedJob) int { return a.Created.Compare(b.Created) })
	return list, err
}

// Job describes a job, with its summary if it is finished.
func (at SessionDir) Job(id string) (SavedJob, error) {
	j, err := at.jobStore()
	if err == nil {
		err = checkJobID(id)
	}
	if err != nil {
		return SavedJob{}, err
	}
	job, err := j.describe(id)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no job %s: %w", id, fs.ErrNotExist)
	}
	return job, err
}

// CancelJob deletes a job with its summary. A process that works on it stops before its next token.
func (at SessionDir) CancelJob(id string) error {
	j, err := at.jobStore()
	if err == nil {
		err = checkJobID(id)
	}
	if err != nil {
		return err
	}
	if _, err := j.fsys.Stat(j.path(id)); err != nil {
		return fmt.Errorf("there is no job %s: %w", id, err)
	}
	if err := vfs.WriteFile(j.fsys, j.path(id, jobCancelMark), nil); err != nil {
		return err
	}
	lock, err := vfs.WaitLock(j.fsys, j.path(id, jobLock), lockWait)
	if errors.Is(err, ErrLocked) {
		return nil // the process deletes it
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) { // the process has deleted it
			return nil
		}
		return err
	}
	return j.remove(id, lock)
}

// checkJobID refuses what is no ID, which could name another directory.
func checkJobID(id string) error {
	if b, err := hex.DecodeString(id); err != nil || len(b) != 6 {
		return fmt.Errorf("%w: a job's ID has 12 hexadecimal digits, %.40q has not", ErrOptions, id)
	}
	return nil
}
