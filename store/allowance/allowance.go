// Package allowance limits the bytes that are written to flash on a day, because flash
// wears out with each write.
//
// An [Allowance] belongs to a directory. A small file counts the bytes of the day for all
// processes that use the directory; it is replaced atomically under a lock. A process takes
// the bytes in steps, so that it writes the file rarely, and returns the rest in Close. A
// process that is killed loses at most one step. Days begin at midnight UTC.
package allowance

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// ErrSpent reports that a write would exceed the limit of the day.
var ErrSpent = errors.New("the daily limit of writes is reached")

// SpentError states the bytes of a write that would exceed the limit of the day. It wraps [ErrSpent].
type SpentError struct {
	Dir, Day          string
	Used, More, Limit int64 // written, of the write, and of the day
}

// Error states the numbers in bytes.
func (e *SpentError) Error() string {
	return fmt.Sprintf("%v: %d bytes were written below %s on %s (UTC), and %d more would exceed %d", ErrSpent, e.Used, e.Dir, e.Day, e.More, e.Limit)
}

// Unwrap makes errors.Is(err, ErrSpent) true.
func (e *SpentError) Unwrap() error { return ErrSpent }

const (
	// Name is the file of an allowance in its directory.
	Name       = "writes"
	lockSuffix = ".lock"
	// maxStep is the most that a process takes at a time; stepFraction keeps the steps of
	// a small limit small.
	maxStep      = 16 << 20
	stepFraction = 16
	// lockTimeout limits the wait for another process that changes the file.
	lockTimeout = 10 * time.Second
	// maxFileBytes is longer than any valid file.
	maxFileBytes = 64

	format    = "%s %d\n" // day, bytes
	dayFormat = "2006-01-02"
)

// Allowance limits the writes to a directory. Any goroutine may call its methods.
type Allowance struct {
	fsys  vfs.FS
	dir   string
	limit int64
	now   func() time.Time

	mu   sync.Mutex
	day  string // the day of left
	left int64  // counted in the file and not yet written
}

// New returns the allowance of a directory, which need not exist: limit bytes a day.
func New(fsys vfs.FS, dir string, limit int64) *Allowance {
	return &Allowance{fsys: fsys, dir: dir, limit: limit, now: time.Now}
}

// Limit returns the bytes of a day.
func (a *Allowance) Limit() int64 { return a.limit }

// Take counts n bytes that will be written, or returns an error that wraps ErrSpent.
func (a *Allowance) Take(n int64) error { return a.TakeLeaving(n, 0) }

// TakeLeaving is Take for a write after which at least leave bytes must remain.
func (a *Allowance) TakeLeaving(n, leave int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	today := a.today()
	if a.day != today {
		a.day, a.left = today, 0
	}
	if n > a.left || leave > 0 {
		if err := a.takeStep(n-a.left, leave); err != nil {
			return err
		}
	}
	a.left -= n
	return nil
}

// Used returns the bytes that all processes have written today.
func (a *Allowance) Used() (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	used, err := a.read(a.today())
	if a.day == a.today() {
		used -= a.left
	}
	return max(0, used), err
}

// Close returns the bytes that were taken and not written.
func (a *Allowance) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left == 0 || a.day != a.today() {
		return nil
	}
	err := a.change(func(used int64) (int64, error) { return max(0, used-a.left), nil })
	a.left = 0
	return err
}

func (a *Allowance) today() string { return a.now().UTC().Format(dayFormat) }

func (a *Allowance) path() string { return vfs.Join(a.dir, Name) }

// takeStep adds at least need bytes to a.left, and leaves others. The caller holds a.mu.
func (a *Allowance) takeStep(need, leave int64) error {
	var step int64
	err := a.change(func(used int64) (int64, error) {
		if need+leave > a.limit-used {
			return 0, &SpentError{Dir: a.dir, Day: a.day, Used: used - a.left, More: need + leave, Limit: a.limit}
		}
		if need <= 0 {
			return used, nil
		}
		step = min(max(need, min(maxStep, a.limit/stepFraction)), a.limit-used)
		return used + step, nil
	})
	if err == nil {
		a.left += step
	}
	return err
}

// change replaces the count of a.day in the file. The caller holds a.mu.
func (a *Allowance) change(next func(used int64) (int64, error)) (err error) {
	if err := a.fsys.MkdirAll(a.dir); err != nil {
		return err
	}
	lock, err := vfs.WaitLock(a.fsys, a.path()+lockSuffix, lockTimeout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	used, err := a.read(a.day)
	if err != nil {
		return err
	}
	before := used
	if used, err = next(used); err != nil || used == before {
		return err
	}
	return vfs.WriteFile(a.fsys, a.path(), fmt.Appendf(nil, format, a.day, used))
}

// read returns the bytes that the file counts for a day.
func (a *Allowance) read(day string) (int64, error) {
	f, err := a.fsys.Open(a.path())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	data := make([]byte, maxFileBytes)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	var of string
	var used int64
	_, err = fmt.Sscanf(string(data[:n]), format, &of, &used)
	if err != nil || used < 0 || fmt.Sprintf(format, of, used) != string(data[:n]) {
		return 0, fmt.Errorf("%w: %s does not hold a day and a number of bytes; delete it to begin the day's count again", store.ErrFormat, a.path())
	}
	if of != day {
		return 0, nil
	}
	return used, nil
}
