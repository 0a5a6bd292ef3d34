package coordinator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// patientJoin is a JoinGroup with a session of 45 seconds and 5 minutes for a rebalance, as the Java client has them.
func patientJoin(member string) *kmsg.JoinGroupRequest {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.MemberID, q.ProtocolType = 3, "g", member, "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 45_000, 300_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	q.Protocols = append(q.Protocols, p)
	return q
}

// TestMemberThatWaitsLives: a member that came back to a rebalance and waits there for a slow one, longer than its session,
// is still in, and answered when the slow one comes. It can't send heartbeats meanwhile.
func TestMemberThatWaitsLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, "")
		slow, waits, newcomer := o.connect(t), o.connect(t), o.connect(t)
		join := func(s *Session, member string) <-chan *kmsg.JoinGroupResponse {
			out := make(chan *kmsg.JoinGroupResponse, 1)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			t.Cleanup(cancel)
			go func() { out <- s.Do(ctx, "c", patientJoin(member)).(*kmsg.JoinGroupResponse) }()
			synctest.Wait()
			return out
		}
		a := <-join(slow, "")
		joined := join(waits, "")
		a = <-join(slow, a.MemberID)
		b := <-joined
		third := join(newcomer, "")
		again := join(waits, b.MemberID)
		for range 8 { // the slow one works for 80 seconds, and its heartbeats go on
			time.Sleep(10 * time.Second)
			q := kmsg.NewPtrHeartbeatRequest()
			q.Version, q.Group, q.MemberID, q.Generation = 3, "g", a.MemberID, a.Generation
			do[*kmsg.HeartbeatResponse](t, slow, q)
		}
		began := time.Now()
		a, b = <-join(slow, a.MemberID), <-again
		c := <-third
		if a.ErrorCode != 0 || b.ErrorCode != 0 || c.ErrorCode != 0 || a.Generation != b.Generation || b.Generation != c.Generation {
			t.Errorf("%+v\n%+v\n%+v", a, b, c)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v more", took)
		}
	})
}

// TestStaticMemberComesBackWhileOthersWait: a static member restarts while it waits for what the leader assigns: it is in
// again when the leader did, and nobody waits for the end of a rebalance that nobody needs.
func TestStaticMemberComesBackWhileOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, "")
		one, two, back := o.connect(t), o.connect(t), o.connect(t)
		join := func(s *Session, instance, member string) <-chan *kmsg.JoinGroupResponse {
			out := make(chan *kmsg.JoinGroupResponse, 1)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
			t.Cleanup(cancel)
			q := patientJoin(member)
			q.Version, q.InstanceID = 9, &instance
			go func() { out <- s.Do(ctx, "c", q).(*kmsg.JoinGroupResponse) }()
			synctest.Wait()
			return out
		}
		sync := func(s *Session, instance string, of *kmsg.JoinGroupResponse) <-chan *kmsg.SyncGroupResponse {
			out := make(chan *kmsg.SyncGroupResponse, 1)
			q := kmsg.NewPtrSyncGroupRequest()
			q.Version, q.Group, q.Generation, q.MemberID, q.InstanceID = 5, "g", of.Generation, of.MemberID, &instance
			go func() { out <- do[*kmsg.SyncGroupResponse](t, s, q) }()
			synctest.Wait()
			return out
		}
		a := <-join(one, "A", "")
		joined := join(two, "B", "")
		a = <-join(one, "A", a.MemberID)
		b := <-joined
		if a.LeaderID != a.MemberID {
			t.Fatalf("%s leads", a.LeaderID)
		}
		waits := sync(two, "B", b)
		began := time.Now()
		again := join(back, "B", "")
		time.Sleep(time.Second)
		if r := <-sync(one, "A", a); r.ErrorCode != 0 {
			t.Errorf("the leader: code %d", r.ErrorCode)
		}
		<-waits // whatever it says: nobody is there
		if b = <-again; b.ErrorCode != 0 || time.Since(began) > 5*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), b)
		}
	})
}
