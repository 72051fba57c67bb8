package vfs

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// queueOver returns a queue and a file on disk that it can read.
func queueOver(t *testing.T, fsys FS, depth int, data []byte) (*ReadQueue, File) {
	name := filepath.Join(t.TempDir(), "f")
	require.NoError(t, WriteFile(OS(), name, data))
	f, err := OpenDirect(fsys, name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	q := NewReadQueue(depth)
	if q == nil || !Queueable(f) {
		t.Skip("no asynchronous reads on this system or in this directory")
	}
	t.Cleanup(q.Close)
	return q, f
}

func numbered(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>12 ^ i)
	}
	return b
}

// alignedMemory returns memory that direct reads may write.
func alignedMemory(n int) []byte { return AlignDirect(make([]byte, n+DirectAlign))[:n] }

func TestReadQueueReturnsTheBytes(t *testing.T) {
	const pages, depth = 40, 8
	data := numbered(pages * DirectAlign)
	q, f := queueOver(t, OS(), depth, data)
	memory := alignedMemory(pages * DirectAlign)
	next, completed := 0, 0
	for _, page := range rand.New(rand.NewPCG(1, 2)).Perm(pages) {
		for q.Room() == 0 {
			_, n, ok := q.Next(time.Minute)
			require.True(t, ok)
			require.Equal(t, DirectAlign, n)
			completed++
		}
		at := page * DirectAlign
		q.Add(f, memory[at:at+DirectAlign], int64(at), page)
		if next++; next%3 == 0 {
			q.Submit()
		}
		if q.Room() == 0 {
			q.Submit()
		}
	}
	q.Submit()
	for ; completed < pages; completed++ {
		_, n, ok := q.Next(time.Minute)
		require.True(t, ok)
		require.Equal(t, DirectAlign, n)
	}
	require.True(t, bytes.Equal(data, memory))
	require.Equal(t, depth, q.Room())
	_, _, ok := q.Next(time.Hour)
	require.False(t, ok, "no read is in flight")
}

func TestReadQueueReportsShortReads(t *testing.T) {
	q, f := queueOver(t, OS(), 4, numbered(DirectAlign+100))
	memory := alignedMemory(3 * DirectAlign)
	q.Add(f, memory[:2*DirectAlign], 0, 1)             // crosses the end of the file
	q.Add(f, memory[2*DirectAlign:], 8*DirectAlign, 2) // begins beyond the end
	q.Submit()
	got := map[int]int{}
	for range 2 {
		tag, n, ok := q.Next(time.Minute)
		require.True(t, ok)
		got[tag] = n
	}
	require.Equal(t, map[int]int{1: DirectAlign + 100, 2: 0}, got)

	// Memory that is not aligned for a direct read: most file systems reject the read, some accept it.
	unaligned := memory[DirectAlign+1:][:DirectAlign]
	q.Add(f, unaligned, 0, 3)
	q.Add(f, memory[:DirectAlign], 0, 4)
	q.Submit()
	for range 2 {
		tag, n, ok := q.Next(time.Minute)
		require.True(t, ok)
		if tag == 3 && n == 0 {
			continue
		}
		require.Equal(t, DirectAlign, n, "a rejected read returns 0 bytes and does not affect others")
		require.True(t, bytes.Equal(numbered(DirectAlign), map[int][]byte{3: unaligned, 4: memory[:DirectAlign]}[tag]))
	}
}

// TestReadQueueOnThrottledDevice checks that a read completes when the throttled device is
// done, not when the real device is, and that Drain does not wait that long.
func TestReadQueueOnThrottledDevice(t *testing.T) {
	q, f := queueOver(t, Throttled(OS(), DirectAlign/3600, 0), 2, numbered(2*DirectAlign)) // one page an hour
	q.Add(f, alignedMemory(DirectAlign), 0, 1)
	q.Submit()
	_, _, ok := q.Next(20 * time.Millisecond)
	require.False(t, ok)
	q.Drain()
	require.Equal(t, 2, q.Room())

	quick, f := queueOver(t, Throttled(OS(), 0, time.Millisecond), 2, numbered(2*DirectAlign))
	quick.Add(f, alignedMemory(DirectAlign), 0, 1)
	quick.Add(f, alignedMemory(DirectAlign), DirectAlign, 2)
	quick.Submit()
	for range 2 {
		_, n, ok := quick.Next(time.Minute)
		require.True(t, ok)
		require.Equal(t, DirectAlign, n)
	}
}

func TestQueueable(t *testing.T) {
	mem := NewMem()
	require.NoError(t, WriteFile(mem, "f", numbered(DirectAlign)))
	for _, fsys := range []FS{mem, Throttled(mem, 1<<30, 0), NewFaulty(mem, func(Op) error { return nil })} {
		f, err := OpenDirect(fsys, "f")
		require.NoError(t, err)
		require.False(t, Queueable(f))
	}
}

func TestReadQueueAllocatesNothing(t *testing.T) {
	q, f := queueOver(t, OS(), 4, numbered(8*DirectAlign))
	memory := alignedMemory(4 * DirectAlign)
	require.Zero(t, testutil.AllocsPerRun(50, 0, func() {
		for i := range 4 {
			q.Add(f, memory[i*DirectAlign:][:DirectAlign], int64(i*DirectAlign), i)
		}
		q.Submit()
		for range 4 {
			if _, n, ok := q.Next(time.Minute); !ok || n != DirectAlign {
				t.Fatal("a read is missing")
			}
		}
	}))
}

// scriptedReads stands for the system. It completes all reads in flight together: at once,
// or only when the caller waits.
type scriptedReads struct {
	inFlight []int // slots
	atOnce   bool
}

func (s *scriptedReads) submit(q *ReadQueue) int {
	s.inFlight = append(s.inFlight, q.unsubmitted...)
	return len(q.unsubmitted)
}

func (s *scriptedReads) collectCompleted(q *ReadQueue, wait time.Duration) {
	if !s.atOnce && wait == 0 {
		return
	}
	for _, slot := range s.inFlight {
		q.completed = append(q.completed, completedRead{slot, len(q.pending[slot].p)})
	}
	s.inFlight = nil
}

func (s *scriptedReads) close() {}

// scriptedFile is a file that a ReadQueue over scriptedReads accepts. Nothing reads its handle.
type scriptedFile struct {
	File

	handle *os.File
}

func (f *scriptedFile) directHandle() *os.File  { return f.handle }
func (f *scriptedFile) notBefore(int) time.Time { return time.Time{} }

func newScriptedFile(t *testing.T) *scriptedFile {
	handle, err := os.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, handle.Close()) })
	return &scriptedFile{handle: handle}
}

// TestReadQueueLearnsOnlyFromWaiting checks that reads which completed before the caller
// polled say nothing about the device, and that the same reads do if the caller waited.
func TestReadQueueLearnsOnlyFromWaiting(t *testing.T) {
	for name, atOnce := range map[string]bool{"completed before the caller polled": true, "completed while the caller waited": false} {
		t.Run(name, func(t *testing.T) {
			q, f := newReadQueue(8, &scriptedReads{atOnce: atOnce}), newScriptedFile(t)
			memory := make([]byte, 2*DirectAlign)
			for range 3 {
				for i := range 2 {
					q.Add(f, memory[i*DirectAlign:][:DirectAlign], int64(i*DirectAlign), i)
					q.Submit()
				}
				q.Drain()
			}
			require.Equal(t, !atOnce, q.CompletesInBatches())
		})
	}
}

// TestReadQueueWaitsForThrottledDevice runs on a fake clock. A read that the system completes
// at once is returned when the throttled device is done, and Next waits no longer than it may.
func TestReadQueueWaitsForThrottledDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newReadQueue(2, &scriptedReads{atOnce: true})
		q.pause = time.Sleep
		f := &throttledFile{File: newScriptedFile(t), device: NewDevice(DirectAlign/4, 0)} // 4 s a page
		start := time.Now()
		q.Add(f, make([]byte, DirectAlign), 0, 7)
		q.Submit()
		_, _, ok := q.Next(time.Second)
		require.False(t, ok)
		require.Equal(t, time.Second, time.Since(start))
		tag, n, ok := q.Next(time.Minute)
		require.True(t, ok)
		require.Equal(t, []int{7, DirectAlign}, []int{tag, n})
		require.Equal(t, 4*time.Second, time.Since(start))
	})
}
