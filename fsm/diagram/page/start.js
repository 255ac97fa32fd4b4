// The scripts above only define functions; this one runs them.
const DATA = JSON.parse(byId("data").textContent);
const machine = machineOf(DATA.machine);
const page = DATA.call ? explain(machine, DATA.call, DATA.budget, DATA.frames, DATA.first) : play(machine, DATA.usual, DATA.budget, DATA.around);
