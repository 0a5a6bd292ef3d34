package coordinator

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// asking asks something that waits, and gives where its answer comes. It returns when it waits.
func asking[R kmsg.Response](ctx context.Context, s *Session, q kmsg.Request) <-chan R {
	out := make(chan R, 1)
	go func() { out <- s.Do(ctx, "c", q).(R) }() // ends with ctx at the latest
	synctest.Wait()
	return out
}

// alive sends a member's heartbeats for a time, and reports when the group prepares a rebalance.
func alive(t *testing.T, s *Session, is *kmsg.JoinGroupResponse, d time.Duration) (rebalance bool) {
	t.Helper()
	q := kmsg.NewPtrHeartbeatRequest()
	q.Version, q.Group, q.MemberID, q.Generation = 3, "g", is.MemberID, is.Generation
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(3 * time.Second) {
		switch code := do[*kmsg.HeartbeatResponse](t, s, q).ErrorCode; code {
		case 0:
		case 27: // REBALANCE_IN_PROGRESS
			return true
		default:
			t.Fatalf("code %d", code)
		}
	}
	return false
}

func syncOf(of *kmsg.JoinGroupResponse) *kmsg.SyncGroupRequest {
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.Generation, q.MemberID = 5, "g", of.Generation, of.MemberID
	for _, m := range of.Members {
		q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte("some")})
	}
	return q
}

// TestNewcomerDiesWhileItJoins: a member that is killed while it waits in its first JoinGroup is out when its session ends,
// and others are assigned what it was. Each version of the request and each kind of member waits under another name.
func TestNewcomerDiesWhileItJoins(t *testing.T) {
	instance := "i"
	for name, of := range map[string]struct {
		version  int16
		instance *string
	}{"old": {3, nil}, "new": {9, nil}, "static": {9, &instance}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := open(t, "")
				lives, dies := o.connect(t), o.connect(t)
				a := <-asking[*kmsg.JoinGroupResponse](t.Context(), lives, patientJoin(""))
				<-asking[*kmsg.SyncGroupResponse](t.Context(), lives, syncOf(a))

				q := patientJoin("")
				q.Version, q.InstanceID = of.version, of.instance
				ctx, kill := context.WithCancel(t.Context())
				b := asking[*kmsg.JoinGroupResponse](ctx, dies, q)
				if of.version > 3 && of.instance == nil {
					q.MemberID = (<-b).MemberID
					b = asking[*kmsg.JoinGroupResponse](ctx, dies, q)
				}
				kill()
				<-b
				dies.Close()

				a = <-asking[*kmsg.JoinGroupResponse](t.Context(), lives, patientJoin(a.MemberID))
				<-asking[*kmsg.SyncGroupResponse](t.Context(), lives, syncOf(a))
				if !alive(t, lives, a, time.Minute) {
					t.Fatal("it is in for ever")
				}
				if a = <-asking[*kmsg.JoinGroupResponse](t.Context(), lives, patientJoin(a.MemberID)); len(a.Members) != 1 {
					t.Errorf("%d members", len(a.Members))
				}
				if n := o.left.count(); n != 0 {
					t.Errorf("%d waits are left", n)
				}
			})
		})
	}
}

// TestMemberDiesWhileItSyncs: a member that is killed while it waits for what the leader assigns keeps nobody longer than its
// session: the others' next rebalance ends when they have joined.
func TestMemberDiesWhileItSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, "")
		leads, waits, dies := o.connect(t), o.connect(t), o.connect(t)
		a := <-asking[*kmsg.JoinGroupResponse](t.Context(), leads, patientJoin(""))
		joining, dying := asking[*kmsg.JoinGroupResponse](t.Context(), waits, patientJoin("")), asking[*kmsg.JoinGroupResponse](t.Context(), dies, patientJoin(""))
		a = <-asking[*kmsg.JoinGroupResponse](t.Context(), leads, patientJoin(a.MemberID))
		b, c := <-joining, <-dying
		if a.LeaderID != a.MemberID {
			t.Fatalf("%s leads", a.LeaderID)
		}

		ctx, kill := context.WithCancel(t.Context())
		dead := asking[*kmsg.SyncGroupResponse](ctx, dies, syncOf(c))
		synced := asking[*kmsg.SyncGroupResponse](t.Context(), waits, syncOf(b))
		kill()
		<-dead
		dies.Close()
		alive(t, leads, a, time.Minute) // the leader takes its time
		<-asking[*kmsg.SyncGroupResponse](t.Context(), leads, syncOf(a))
		if r := <-synced; r.ErrorCode != 0 && r.ErrorCode != 27 {
			t.Fatalf("code %d", r.ErrorCode)
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); { // the dead one's session ends
			if one, other := alive(t, waits, b, time.Second), alive(t, leads, a, time.Second); one || other {
				break
			}
		}

		began := time.Now()
		joining = asking[*kmsg.JoinGroupResponse](t.Context(), waits, patientJoin(b.MemberID))
		a, b = <-asking[*kmsg.JoinGroupResponse](t.Context(), leads, patientJoin(a.MemberID)), <-joining
		if took := time.Since(began); took > time.Second || a.ErrorCode != 0 || b.ErrorCode != 0 {
			t.Errorf("after %v: %+v\n%+v", took, a, b)
		}
	})
}

// TestOneThatSyncsIsMadeToLeave: a member that waits for what the leader assigns and is let go, by an administrator or over
// another connection of its own, is answered, and the others rebalance at once, also where that happens again.
func TestOneThatSyncsIsMadeToLeave(t *testing.T) {
	instance := "i"
	for name, of := range map[string]struct {
		version  int16
		instance *string
		leave    func(q *kmsg.LeaveGroupRequest, id string)
	}{
		"by id": {5, nil, func(q *kmsg.LeaveGroupRequest, id string) { q.Members = []kmsg.LeaveGroupRequestMember{{MemberID: id}} }},
		"old":   {2, nil, func(q *kmsg.LeaveGroupRequest, id string) { q.MemberID = id }},
		"static": {5, &instance, func(q *kmsg.LeaveGroupRequest, id string) {
			q.Members = []kmsg.LeaveGroupRequestMember{{InstanceID: &instance}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := open(t, "")
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				leads, waits, leaves, admin := o.connect(t), o.connect(t), o.connect(t), o.connect(t)
				a := <-asking[*kmsg.JoinGroupResponse](ctx, leads, patientJoin(""))
				b := &kmsg.JoinGroupResponse{}
				for range 2 {
					began := time.Now()
					q := patientJoin("")
					q.InstanceID = of.instance
					if of.instance != nil {
						q.Version = 9
					}
					leaving := asking[*kmsg.JoinGroupResponse](ctx, leaves, q)
					joining := asking[*kmsg.JoinGroupResponse](ctx, waits, patientJoin(b.MemberID))
					a = <-asking[*kmsg.JoinGroupResponse](ctx, leads, patientJoin(a.MemberID))
					b = <-joining
					c := <-leaving
					if a.LeaderID != a.MemberID || len(a.Members) != 3 {
						t.Fatalf("%+v", a)
					}
					sync := syncOf(c)
					sync.InstanceID = of.instance
					synced, left := asking[*kmsg.SyncGroupResponse](ctx, waits, syncOf(b)), asking[*kmsg.SyncGroupResponse](ctx, leaves, sync)
					out := kmsg.NewPtrLeaveGroupRequest()
					out.Version, out.Group = of.version, "g"
					of.leave(out, c.MemberID)
					if r := do[*kmsg.LeaveGroupResponse](t, admin, out); r.ErrorCode != 0 || of.version > 2 && (len(r.Members) != 1 || r.Members[0].ErrorCode != 0) {
						t.Fatalf("%+v", r)
					}
					if r := <-left; r.ErrorCode != 27 && r.ErrorCode != unknownMemberID {
						t.Errorf("the one that leaves: code %d", r.ErrorCode)
					}
					if r := <-synced; r.ErrorCode != 27 {
						t.Errorf("another: code %d", r.ErrorCode)
					}
					joining = asking[*kmsg.JoinGroupResponse](ctx, waits, patientJoin(b.MemberID))
					a, b = <-asking[*kmsg.JoinGroupResponse](ctx, leads, patientJoin(a.MemberID)), <-joining
					if took := time.Since(began); took > time.Second || a.ErrorCode != 0 || b.ErrorCode != 0 || len(a.Members)+len(b.Members) != 2 {
						t.Errorf("after %v: %+v\n%+v", took, a, b)
					}
				}
				if n := len(o.stirs.taken); n != 0 {
					t.Errorf("%d are left", n)
				}
			})
		})
	}
}

// TestOneThatJoinsIsMadeToLeave: a member that waits in JoinGroup and is let go is told so at once.
func TestOneThatJoinsIsMadeToLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, "")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lives, leaves := o.connect(t), o.connect(t)
		a := <-asking[*kmsg.JoinGroupResponse](ctx, lives, patientJoin(""))
		<-asking[*kmsg.SyncGroupResponse](ctx, lives, syncOf(a))
		q := patientJoin("")
		q.Version = 9
		q.MemberID = (<-asking[*kmsg.JoinGroupResponse](ctx, leaves, q)).MemberID
		b := asking[*kmsg.JoinGroupResponse](ctx, leaves, q)
		leave := newest(kmsg.NewPtrLeaveGroupRequest())
		leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: q.MemberID}}
		do[*kmsg.LeaveGroupResponse](t, lives, leave)
		if r := <-b; r.ErrorCode != unknownMemberID {
			t.Errorf("code %d", r.ErrorCode)
		}
		if a = <-asking[*kmsg.JoinGroupResponse](ctx, lives, patientJoin(a.MemberID)); a.ErrorCode != 0 || len(a.Members) != 1 {
			t.Errorf("%+v", a)
		}
		if len(o.waits.ends) != 0 || o.left.count() != 0 || o.log.String() != "" {
			t.Errorf("%d waits, %d are left; the log says %s", len(o.waits.ends), o.left.count(), o.log)
		}
	})
}

// TestNewcomerDiesBesideThePatient is TestNewcomerDiesWhileItJoins where another member takes longer to join again than the one
// that died would have waited for anybody: a rebalance lasts as long as the most patient wants.
func TestNewcomerDiesBesideThePatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, "")
		lives, dies := o.connect(t), o.connect(t)
		a := <-asking[*kmsg.JoinGroupResponse](t.Context(), lives, patientJoin(""))
		<-asking[*kmsg.SyncGroupResponse](t.Context(), lives, syncOf(a))
		q := patientJoin("")
		q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 10_000, 10_000
		ctx, kill := context.WithCancel(t.Context())
		b := asking[*kmsg.JoinGroupResponse](ctx, dies, q)
		kill()
		<-b
		dies.Close()
		beat := kmsg.NewPtrHeartbeatRequest()
		beat.Version, beat.Group, beat.MemberID, beat.Generation = 3, "g", a.MemberID, a.Generation
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(3 * time.Second) { // it works on what it has
			do[*kmsg.HeartbeatResponse](t, lives, beat)
		}
		a = <-asking[*kmsg.JoinGroupResponse](t.Context(), lives, patientJoin(a.MemberID))
		<-asking[*kmsg.SyncGroupResponse](t.Context(), lives, syncOf(a))
		if !alive(t, lives, a, time.Minute) {
			t.Error("it is in for ever")
		}
	})
}

// TestLetGoWhenItLeft: the wait of a client that went ends when its member is let go: kfake does not answer it then.
func TestLetGoWhenItLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, "")
		lives, dies := o.connect(t), o.connect(t)
		a := <-asking[*kmsg.JoinGroupResponse](t.Context(), lives, patientJoin(""))
		<-asking[*kmsg.SyncGroupResponse](t.Context(), lives, syncOf(a))
		q := patientJoin("")
		q.Version = 9
		q.MemberID = (<-asking[*kmsg.JoinGroupResponse](t.Context(), dies, q)).MemberID
		ctx, kill := context.WithCancel(t.Context())
		b := asking[*kmsg.JoinGroupResponse](ctx, dies, q)
		kill()
		<-b
		if n := o.left.count(); n != 1 {
			t.Errorf("%d waits", n)
		}
		leave := newest(kmsg.NewPtrLeaveGroupRequest())
		leave.Group, leave.Members = "g", []kmsg.LeaveGroupRequestMember{{MemberID: q.MemberID}}
		do[*kmsg.LeaveGroupResponse](t, lives, leave)
		synctest.Wait()
		if n := o.left.count(); n != 0 {
			t.Errorf("%d waits are left", n)
		}
	})
}

// TestNobodyAnswersWhoLeft: a wait that nobody answers ends after a time, and its connection with it.
func TestNobodyAnswersWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l left
		ours, theirs := net.Pipe()
		defer theirs.Close()
		answered := make(chan error, 1)
		go func() { // ends with the connection
			_, err := ours.Read(make([]byte, 1))
			answered <- err
		}()
		var stopped atomic.Bool
		if !l.stay("m", ours, answered, nil, func() { stopped.Store(true) }) {
			t.Fatal("it is not taken over")
		}
		time.Sleep(stayFor - time.Second)
		synctest.Wait()
		if stopped.Load() || l.count() != 1 {
			t.Error("it ended early")
		}
		time.Sleep(time.Second)
		l.wg.Wait()
		if !stopped.Load() || l.count() != 0 {
			t.Error("it goes on")
		}
	})
}

func (l *left) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waits)
}
