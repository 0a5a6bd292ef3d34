package server

import (
	"testing"
	"time"
)

// TestUnsent: the slowest goes first, and no more than has to; one answer alone may be larger than all.
func TestUnsent(t *testing.T) {
	u := newUnsent(100)
	now := time.Now()
	u.now = func() time.Time { now = now.Add(time.Second); return now }
	a, b, c, d := &conn{}, &conn{}, &conn{}, &conn{}
	if slow := u.add(a, 500); slow != nil || u.remove(a) {
		t.Errorf("one alone: %v", slow)
	}
	u.add(a, 40)
	u.add(b, 40)
	u.took(a)
	if slow := u.add(c, 60); len(slow) != 1 || slow[0] != b {
		t.Errorf("40, 40 and 60 of 100: %v", slow)
	}
	if slow := u.add(d, 70); len(slow) != 2 || slow[0] != a || slow[1] != c {
		t.Errorf("70 more: %v", slow)
	}
	if !u.remove(a) || !u.remove(b) || !u.remove(c) || u.remove(d) || u.total != 0 || len(u.of) != 0 {
		t.Errorf("at the end: %d bytes of %d", u.total, len(u.of))
	}
}

// TestStalled: clients that have taken nothing for a while give way to those who wait, no more of them than it takes.
func TestStalled(t *testing.T) {
	u := newUnsent(1000)
	now := time.Now()
	u.now = func() time.Time { return now }
	a, b, c := &conn{}, &conn{}, &conn{}
	u.add(a, 10)
	now = now.Add(time.Second)
	u.add(b, 10)
	u.add(c, 0) // a file is on its way, which takes no memory
	if slow, next := u.stalled(5); slow != nil || next != stallTime-time.Second {
		t.Errorf("at first %v, the next in %v", slow, next)
	}
	now = now.Add(stallTime - time.Second)
	if slow, next := u.stalled(5); len(slow) != 1 || slow[0] != a || next != 0 {
		t.Errorf("after a while %v, the next in %v", slow, next)
	}
	if slow, next := u.stalled(15); slow != nil || next != time.Second {
		t.Errorf("for 15 more %v, the next in %v", slow, next)
	}
	now = now.Add(time.Minute)
	if slow, next := u.stalled(15); len(slow) != 1 || slow[0] != b || next != 0 {
		t.Errorf("at last %v, the next in %v", slow, next)
	}
}

// count is the number of answers on their way.
func (u *unsent) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.of)
}
