package llmrun

import (
	"sync"
	"time"

	"github.com/llmrun/llmrun/exec/modelfile"
)

// freshFiles watches files of the model that had just been changed when it was opened.
type freshFiles struct {
	mu    sync.Mutex
	files *modelfile.Fresh
}

// check returns an error if the files were changed since they were opened, so that they may have been read in the middle of
// being written. It follows a pass, and costs nothing once the files have been left alone for a while.
func (f *freshFiles) check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		return nil
	}
	done, err := f.files.Check(time.Now())
	if err == nil && done {
		err = f.files.Close()
		f.files = nil
	}
	return err
}

// close ends watching.
func (f *freshFiles) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.files.Close()
	f.files = nil
	return err
}
