/// A job grows while it runs: rank 0 makes a ticket and starts one process more, which joins by the
/// ticket; all ranks then sum over the larger communicator.
#include <harmonaize.h>
#include <sys/wait.h>

#include "example.h"

enum { kCount = 1003 };
static const char kJob[] = "elastic-join";

/// Sums the ranks' numbers. Returns the number of wrong elements.
static size_t SumOver(ncclComm_t comm) {
  int ranks = 0;
  int rank = -1;
  CHECK_NCCL(ncclCommCount(comm, &ranks));
  CHECK_NCCL(ncclCommUserRank(comm, &rank));
  float* buffer = FloatBuffer(kCount, (float)rank);
  CHECK_NCCL(ncclAllReduce(buffer, buffer, kCount, ncclFloat, ncclSum, comm, NULL));
  const float expected = (float)ranks * (float)(ranks - 1) / 2;
  const size_t wrong = CountWrong(buffer, kCount, expected, rank);
  free(buffer);
  return wrong;
}

/// The newcomer: HARMONAIZE_TICKET_FILE names the file of its ticket.
static int RunNewcomer(void) {
  hzPlace_t place = HZ_PLACE_INITIALIZER;
  CHECK_NCCL(hzJoinJob(kJob, NULL, 60000, &place));
  ncclComm_t grown = NULL;
  CHECK_NCCL(ncclCommGrow(NULL, place.ranks, &place.id, place.rank, &grown, NULL));
  const size_t wrong = SumOver(grown);
  CHECK_NCCL(ncclCommDestroy(grown));
  return Finish(place.rank, wrong);
}

/// Writes a ticket into a new file that nobody else may read. Returns its path.
static const char* WriteTicket(ncclComm_t comm) {
  static char path[64];
  char ticket[HZ_TICKET_BYTES];
  CHECK_NCCL(hzMakeTicket(comm, 1, 60, ticket));
  snprintf(path, sizeof path, "/tmp/elastic-join-XXXXXX");
  const int file = mkstemp(path);  // with mode 0600
  if (file < 0 || write(file, ticket, strlen(ticket)) != (ssize_t)strlen(ticket)) {
    perror(path);
    exit(EXIT_FAILURE);
  }
  close(file);
  return path;
}

static pid_t StartNewcomer(const char* ticket_file) {
  const pid_t process = fork();
  if (process != 0) return process;
  setenv("HARMONAIZE_TICKET_FILE", ticket_file, 1);
  execl("/proc/self/exe", "elastic_join", "newcomer", (char*)NULL);
  _exit(EXIT_FAILURE);
}

/// Admits the newcomer once it waits. Returns the size of the grown communicator.
static int Admit(ncclComm_t comm) {
  int waiting = 0;
  while (waiting == 0) {
    CHECK_NCCL(hzNewcomers(comm, &waiting));  // a job asks between two steps
    usleep(1000);
  }
  int ranks = 0;
  CHECK_NCCL(hzAdmit(comm, 1, &ranks));
  return ranks;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "newcomer") == 0) return RunNewcomer();
  const Place place = FindPlace();
  CHECK_NCCL(hzSetJob(kJob, "training"));
  ncclComm_t comm = JoinAll(place);
  pid_t newcomer = -1;
  int ranks = 0;
  if (place.rank == 0) {
    const char* const file = WriteTicket(comm);
    newcomer = StartNewcomer(file);
    ranks = Admit(comm);
    unlink(file);
  }
  // All ranks have to grow by the same number.
  CHECK_NCCL(ncclBroadcast(&ranks, &ranks, 1, ncclInt, 0, comm, NULL));
  ncclComm_t grown = NULL;
  CHECK_NCCL(ncclCommGrow(comm, ranks, NULL, -1, &grown, NULL));
  CHECK_NCCL(ncclCommDestroy(comm));
  size_t wrong = SumOver(grown);
  CHECK_NCCL(ncclCommDestroy(grown));
  int status = 0;
  if (newcomer > 0 && (waitpid(newcomer, &status, 0) != newcomer || status != 0)) ++wrong;
  return Finish(place.rank, wrong);
}
