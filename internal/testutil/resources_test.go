package testutil

import (
	"os"
	"testing"
	"testing/synctest"
)

// TestResourcesAreCounted checks that a file and a goroutine count until they are closed and ended.
func TestResourcesAreCounted(t *testing.T) {
	before := CountResources("testutil.test")
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	go func() { <-end }()
	held := CountResources("testutil.test")
	if held.Goroutines <= before.Goroutines {
		t.Errorf("%+v, then %+v with a goroutine", before, held)
	}
	if before.Files > 0 && held.Files <= before.Files {
		t.Errorf("%+v, then %+v with an open file", before, held)
	}
	synctest.Test(t, func(t *testing.T) { // its minute passes at once
		tb, done := &failing{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			before.RequireReturned(tb, "the file and the goroutine")
		}()
		<-done
		if tb.message == "" {
			t.Error("a leak was not reported")
		}
	})
	close(end)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	before.RequireReturned(t, "the file is closed, the goroutine has ended")
}
