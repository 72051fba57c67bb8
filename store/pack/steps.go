package pack

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/llmrun/llmrun/store/crc"
)

// Progress says how far a pack is written that is written in steps.
type Progress struct {
	Body int64  // bytes of tensors
	File int64  // bytes of the file
	Sum  uint32 // CRC-32C of them
}

// StepFile is a file that WriteInSteps writes.
type StepFile interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Sync() error
}

// ErrOtherStart reports a file that does not begin with what was written of the pack.
var ErrOtherStart = errors.New("what is there of the pack is damaged, or of another model")

// WriteInSteps writes a pack to a file as Write does, for a source that is deleted while it is read. Whenever about
// every bytes more are durable it calls checkpoint, and the caller may delete what they were made of. After a failure a call
// with the last Progress goes on from there: body then receives how many bytes of tensors are there, which the file is
// compared with. The file is durable and a pack when WriteInSteps returns nil, and none before.
func WriteInSteps(f StepFile, c Contents, from Progress, every int64, checkpoint func(Progress) error, body func(w io.Writer, from int64) error) error {
	w := &writer{}
	if err := w.plan(&c); err != nil {
		return err
	}
	if err := f.Truncate(from.File); err != nil {
		return err
	}
	s := &stepWriter{writer: w, file: f, from: from, every: every, checkpoint: checkpoint, saved: from.Body}
	s.out = bufio.NewWriterSize(io.NewOffsetWriter(f, from.File), stepBuffer)
	w.out = rawSteps{s}
	err := w.write(&c, func(io.Writer) error {
		if err := s.replay(); err != nil {
			return err
		}
		return body(s, from.Body)
	})
	if err != nil {
		return err
	}
	return s.flush()
}

// stepBuffer is the size of the writes to the file, and of the reads that compare it.
const stepBuffer = 1 << 20

// stepWriter writes the bytes of tensors, and makes them durable from time to time.
type stepWriter struct {
	writer     *writer
	file       StepFile
	out        *bufio.Writer // behind from.File
	from       Progress
	every      int64
	checkpoint func(Progress) error

	now   Progress
	saved int64 // Body of the last checkpoint
}

// Write implements io.Writer for the bytes of tensors.
func (s *stepWriter) Write(p []byte) (int, error) {
	n, err := bodyWriter{s.writer}.Write(p)
	s.now.Body += int64(n)
	if err != nil || s.now.Body-s.saved < s.every {
		return n, err
	}
	if err := s.flush(); err != nil {
		return n, err
	}
	s.saved = s.now.Body
	return n, s.checkpoint(s.now)
}

// flush makes everything before durable.
func (s *stepWriter) flush() error {
	if err := s.out.Flush(); err != nil {
		return err
	}
	return s.file.Sync()
}

// replay passes the tensors that are in the file through the writer, which computes the checksums of their blocks.
func (s *stepWriter) replay() error {
	if s.from == (Progress{}) {
		return nil
	}
	buffer := make([]byte, min(stepBuffer, s.from.Body))
	for left := s.from.Body; left > 0; {
		n := min(left, int64(len(buffer)), s.writer.missing)
		if n == 0 {
			return fmt.Errorf("%w: it has more bytes of tensors than the model", ErrOtherStart)
		}
		if _, err := s.file.ReadAt(buffer[:n], s.writer.at); err != nil {
			return err
		}
		if _, err := (bodyWriter{s.writer}).Write(buffer[:n]); err != nil {
			return err
		}
		left -= n
	}
	s.now.Body = s.from.Body
	if s.now.File != s.from.File {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrOtherStart, s.from.File, s.now.File)
	}
	return nil
}

// rawSteps receives the bytes of the file in order. Those that are there are only compared.
type rawSteps struct{ s *stepWriter }

func (r rawSteps) Write(p []byte) (int, error) {
	s, n := r.s, len(p)
	if there := min(int64(n), s.from.File-s.now.File); there > 0 {
		s.add(p[:there])
		if p = p[there:]; s.now.File == s.from.File && s.now.Sum != s.from.Sum {
			return 0, ErrOtherStart
		}
	}
	s.add(p)
	if _, err := s.out.Write(p); err != nil {
		return 0, err
	}
	return n, nil
}

func (s *stepWriter) add(p []byte) {
	s.now.File += int64(len(p))
	s.now.Sum = crc.Update(s.now.Sum, p)
}
