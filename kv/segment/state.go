package segment

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/vfs"
)

// Beside a segment there may be a file with the recurrent state behind its last token: what layers keep besides keys and
// values. It is named by the segment and removed with it. FORMAT.md describes it.
const (
	stateSuffix  = ".state"
	stateMagic   = "LLMRSTAT"
	stateVersion = 1
)

func (d *Dir) statePath(id ID) string { return d.path(id.String() + stateSuffix) }

// stateSegment returns the segment of a state's file name.
func stateSegment(name string) (id ID, ok bool) {
	digits, ok := strings.CutSuffix(name, stateSuffix)
	if !ok || len(digits) != hex.EncodedLen(len(id)) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil
}

// stateHeader returns the first bytes of the file of a state with a size and a sum.
func stateHeader(id ID, size int64, sum uint64) []byte {
	b := make([]byte, 0, pageAlign)
	b = append(b, stateMagic...)
	b = binary.LittleEndian.AppendUint32(b, stateVersion)
	b = append(b, make([]byte, 4)...)
	b = append(b, id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	b = binary.LittleEndian.AppendUint64(b, sum)
	b = binary.LittleEndian.AppendUint64(b, store.Sum64(checksumSeed, b))
	return b[:cap(b)]
}

// HasState reports whether the state behind a segment is stored.
func (s *Store) HasState(id ID) bool {
	_, err := s.dir.fsys.Stat(s.dir.statePath(id))
	return err == nil
}

// WriteState stores the state behind a segment, which the caller keeps open. It writes the bytes with write. The state
// follows from the tokens, so one that is there already stays.
func (s *Store) WriteState(id ID, state []byte, durable bool, write WriteFunc) error {
	d := s.dir
	if s.HasState(id) {
		return d.keepState(id, durable)
	}
	bytes := int64(pageAlign + len(state))
	if d.allow != nil {
		if err := d.allow(bytes, s.leave); err != nil {
			return err
		}
	}
	if err := d.makeRoom(bytes, s.leave); err != nil {
		return err
	}
	temp := d.path(fmt.Sprintf("%v%s%s-%d", id, vfs.TempMark, d.writer, d.serial.Add(1)))
	f, err := d.fsys.Create(temp)
	if err != nil {
		return err
	}
	if err = vfs.Allocate(f, bytes); err == nil {
		_, err = (&pieces{f, pageAlign, write}).Write(state)
	}
	if err == nil {
		err = write(f, stateHeader(id, int64(len(state)), store.Sum64(checksumSeed, state)), 0)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = d.fsys.Rename(temp, d.statePath(id))
	}
	if err != nil {
		return errors.Join(err, d.fsys.Remove(temp))
	}
	d.written.Add(bytes)
	return nil
}

// keepState makes a state that is stored durable, if it has to be.
func (d *Dir) keepState(id ID, durable bool) error {
	if !durable {
		return nil
	}
	f, err := d.fsys.Open(d.statePath(id))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ReadState fills state with what is stored behind a segment, and verifies it. A state that does not match is removed.
func (s *Store) ReadState(id ID, state []byte) error {
	err := s.dir.readState(id, state)
	if errors.Is(err, store.ErrFormat) || errors.Is(err, store.ErrTruncated) {
		err = errors.Join(err, s.dir.removeState(id))
	}
	return err
}

func (d *Dir) readState(id ID, state []byte) error {
	f, size, err := d.openState(id)
	if err != nil {
		return err
	}
	defer f.Close()
	path := d.statePath(id)
	if size != int64(len(state)) {
		return refuser(path)(pageAlign+size, "length", store.ErrTruncated, "the file has %d bytes instead of %d", pageAlign+size, pageAlign+len(state))
	}
	if err := d.admitted(f, path, state, pageAlign); err != nil {
		return err
	}
	return d.checkState(f, id, size, store.Sum64(checksumSeed, state))
}

// openState opens the file of a state, and returns the size of the state.
func (d *Dir) openState(id ID) (f vfs.File, size int64, err error) {
	path := d.statePath(id)
	if f, err = d.fsys.Open(path); err != nil {
		return nil, 0, unsealed(path, err)
	}
	if size, err = f.Size(); err == nil && size < pageAlign {
		err = refuser(path)(size, "length", store.ErrTruncated, "the file has %d bytes, fewer than %d", size, pageAlign)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size - pageAlign, nil
}

// checkState compares the header of a state with the one for its size and sum.
func (d *Dir) checkState(f vfs.File, id ID, size int64, sum uint64) error {
	path, head := d.statePath(id), make([]byte, pageAlign)
	if err := d.admitted(f, path, head, 0); err != nil {
		return err
	}
	if string(head) != string(stateHeader(id, size, sum)) {
		return refuser(path)(0, "state", store.ErrFormat, "the recurrent state is damaged: its checksums do not match")
	}
	return nil
}

// verifyState verifies the state behind a segment, if one is stored, and returns the bytes read. Nothing says how large
// the state should be, so it is read in pieces.
func (d *Dir) verifyState(id ID) (int64, error) {
	f, size, err := d.openState(id)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sum, b := store.Hash64(checksumSeed), make([]byte, min(size, pieceBytes))
	for at := int64(0); at < size; at += int64(len(b)) {
		b = b[:min(int64(len(b)), size-at)]
		if err := d.admitted(f, d.statePath(id), b, pageAlign+at); err != nil {
			return at, err
		}
		_, _ = sum.Write(b) // never fails
	}
	return pageAlign + size, d.checkState(f, id, size, sum.Sum64())
}

// removeState removes the state behind a segment.
func (d *Dir) removeState(id ID) error {
	if err := d.fsys.Remove(d.statePath(id)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
