package budget

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/rsmhost/rsmhost/abi"
)

// TestShareBounds: who asks for more than is left waits in the order of asking, and all that is held is in use for the pool.
func TestShareBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1000)
		s := p.Share(100)
		first := s.Try(80)
		if first == nil || p.InUse() != 80 {
			t.Fatalf("%v; %d in use", first, p.InUse())
		}
		if s.Try(30) != nil {
			t.Error("more than there is")
		}
		var order []int64
		for _, n := range []int64{90, 20} {
			go func() {
				h, err := s.Take(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, n)
				h.Give()
			}()
			synctest.Wait()
		}
		select {
		case <-s.Short():
		default:
			t.Error("somebody waits, and nobody hears of it")
		}
		if n := s.Wanted(); n != 110 {
			t.Errorf("%d bytes are wanted", n)
		}
		first.Keep(60) // enough for the second, whose turn it is not
		synctest.Wait()
		if len(order) > 0 {
			t.Errorf("one came before its turn: %v", order)
		}
		first.Give()
		first.Give()
		synctest.Wait()
		if len(order) != 2 || order[0] != 90 {
			t.Errorf("in the order %v", order)
		}
		select {
		case <-s.Short():
			t.Error("nobody waits")
		default:
		}
		if now, peak := s.InUse(); now != 0 || peak > 100 || p.InUse() != 0 {
			t.Errorf("%d held, %d in use of the pool, %d at most", now, p.InUse(), peak)
		}
	})
}

// TestShareOfOneThatIsTooLarge: it has all of the share, alone.
func TestShareOfOneThatIsTooLarge(t *testing.T) {
	s := New(0).Share(100)
	h := s.Try(1 << 40)
	if h == nil || s.Try(1) != nil {
		t.Fatal("it is not alone")
	}
	h.Keep(1 << 40)
	h.Keep(10)
	if s.Try(90) == nil {
		t.Error("what it gave back is not there")
	}
}

// TestHeldTogether: what is held together is given back together.
func TestHeldTogether(t *testing.T) {
	s := New(0).Share(100)
	var h *Held
	for range 3 {
		h = h.With(s.Try(20))
	}
	if now, _ := s.InUse(); now != 60 {
		t.Errorf("%d bytes are held", now)
	}
	h.Give()
	if now, _ := s.InUse(); now != 0 {
		t.Errorf("%d bytes are held for ever", now)
	}
}

// TestShareWaitEnds: who stops to wait takes nothing, and does not hold up those behind.
func TestShareWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(0).Share(100)
		held := s.Try(50)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := s.Take(ctx, 100)
			failed <- err
		}()
		synctest.Wait()
		served := make(chan *Held)
		go func() {
			h, err := s.Take(t.Context(), 20)
			if err != nil {
				t.Error(err)
			}
			served <- h
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; abi.KindOf(err) != abi.Cancelled || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		(<-served).Give()
		held.Give()
		if now, _ := s.InUse(); now != 0 {
			t.Errorf("%d bytes are held for ever", now)
		}
	})
}

// TestLeaseBesideShare: a lease sees what shares hold, and is served all the same when no other lease holds anything.
func TestLeaseBesideShare(t *testing.T) {
	p := New(64 << 10)
	held := p.Share(0).Try(60 << 10)
	l := p.Lease()
	if l.TryGet(16<<10) != nil {
		t.Error("over the limit")
	}
	b, err := l.Get(t.Context(), 16<<10) // alone
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	held.Give()
	if p.InUse() != 0 {
		t.Errorf("%d in use", p.InUse())
	}
}
